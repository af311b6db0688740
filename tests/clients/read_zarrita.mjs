// Read arrays of plain Zarr with zarrita: `[{"url": ..., "path": ...}]` on stdin, a line of JSON for each on stdout.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import * as zarr from "zarrita";

for (const { url, path } of JSON.parse(readFileSync(0, "utf8"))) {
  let told;
  try {
    const group = zarr.root(new zarr.FetchStore(url));
    const array = await zarr.open.v3(group.resolve(path), { kind: "array" });
    const { data, shape } = await zarr.get(array);
    const isBits = !(data.buffer instanceof ArrayBuffer && ArrayBuffer.isView(data));
    const bytes = isBits ? Uint8Array.from(data) : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    told = { shape, dtype: array.dtype, sha256: createHash("sha256").update(bytes).digest("hex") };
  } catch (error) {
    told = { error: String(error) };
  }
  console.log(JSON.stringify(told));
}
