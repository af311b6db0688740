// Read arrays of Zarr directories with zarrita: a JSON list of places on stdin, a line of JSON for each on stdout,
// with the digest of the elements in C order.
import { createHash } from "node:crypto";
import { FileSystemStore } from "@zarrita/storage";
import * as zarr from "zarrita";

function inOrder({ data, shape, stride }) {
  const out = new data.constructor(data.length);
  const index = shape.map(() => 0);
  for (let at = 0; at < out.length; at++) {
    out[at] = data[index.reduce((sum, place, axis) => sum + place * stride[axis], 0)];
    for (let axis = shape.length - 1; axis >= 0 && ++index[axis] === shape[axis]; axis--) index[axis] = 0;
  }
  return new Uint8Array(out.buffer, out.byteOffset, out.byteLength);
}

let input = "";
for await (const part of process.stdin) input += part;
for (const { root, path } of JSON.parse(input)) {
  try {
    const array = await zarr.open.v3(zarr.root(new FileSystemStore(root)).resolve(path), { kind: "array" });
    const read = await zarr.get(array);
    const digest = createHash("sha256").update(inOrder(read)).digest("hex");
    console.log(JSON.stringify({ shape: read.shape, dtype: array.dtype, digest }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
