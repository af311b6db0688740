// Build the viewer: src/ and the pinned packages of package-lock.json become ../viewer/, byte for byte the same each time.
//
//   npm ci && npm run build            writes ../viewer
//   node build.mjs --out DIRECTORY     writes elsewhere, which is how a test compares

import {build} from 'esbuild';
import {copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const named = process.argv.indexOf('--out');
const out = named > 0 ? process.argv[named + 1] : join(here, '..', 'viewer');

// The server packs chunks with zstd, gzip or nothing.  numcodecs' zstd makes functions of strings, which the pages'
// Content-Security-Policy forbids, so that zstddec decodes it; decoders of what is not served stay out.
const decoders = {
  name: 'decoders',
  setup(bundle) {
    bundle.onResolve({filter: /^numcodecs\/zstd$/}, () => ({path: join(here, 'src', 'zstd.js')}));
    bundle.onResolve({filter: /^numcodecs\/(blosc|lz4)$/}, ({path}) => ({path, namespace: 'unused'}));
    bundle.onLoad({filter: /.*/, namespace: 'unused'}, () => ({contents: 'export default null'}));
  },
};

// neuroglancer as its package has it, but for what it reads: Zarr over HTTP, as images or labels.
const neuroglancerFiles = {
  name: 'neuroglancer-files',
  setup(bundle) {
    bundle.onResolve({filter: /\.svg\?raw$/}, ({path}) => ({path: join(here, 'node_modules', path.replace('?raw', ''))}));
    bundle.onLoad({filter: /async_computation\/request\.js$/}, ({path}) => ({
      contents: readFileSync(path, 'utf8').replace('"../async_computation.bundle.js"', '"./async_computation.bundle.js"'),
    }));
  },
};
const READ = ['datasource:none_by_default', 'datasource/zarr:enabled', 'kvstore:none_by_default', 'kvstore/http:enabled'];
const SHOWN = ['layer:none_by_default', 'layer/image:enabled', 'layer/segmentation:enabled'];

function clear(directory) {
  mkdirSync(directory, {recursive: true});
  for (const name of readdirSync(directory)) {
    if (/\.(js|css|html|txt|svg)$/.test(name)) rmSync(join(directory, name));
  }
}

// Names of the packages that are in the bundle, from the paths of what was bundled.
function bundledPackages(inputs) {
  const names = Object.keys(inputs).map((path) => path.match(/.*node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1]);
  return [...new Set(names.filter(Boolean))].sort();
}

function licenceOf(name) {
  const directory = join(here, 'node_modules', name);
  const {version, license} = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'));
  const file = readdirSync(directory).sort().find((entry) => /^licen[cs]e/i.test(entry));
  const text = file ? readFileSync(join(directory, file), 'utf8').trim() : `(no file; its package.json says ${license})`;
  return `${name} ${version} (${license})\n${'='.repeat(72)}\n${text.replaceAll('\r', '')}\n`;
}

const common = {
  absWorkingDir: here,
  bundle: true,
  format: 'esm',
  target: 'es2022',
  minify: true,
  legalComments: 'none',
  metafile: true,
  logLevel: 'warning',
};

clear(out);
clear(join(out, 'neuroglancer'));
const pages = await build({...common, entryPoints: {main: 'src/main.js', style: 'src/style.css'}, outdir: out, plugins: [decoders]});
const library = 'node_modules/neuroglancer/lib/';
const volumes = await build({
  ...common,
  entryPoints: ['main', 'chunk_worker', 'async_computation'].map((name) => `${library}${name}.bundle.js`),
  outdir: join(out, 'neuroglancer'),
  define: {NEUROGLANCER_GOOGLE_TAG_MANAGER: 'undefined'},
  conditions: [...READ, ...SHOWN].map((name) => `neuroglancer/${name}`),
  loader: {'.svg': 'text'},
  plugins: [decoders, neuroglancerFiles],
});
for (const name of ['index.html', 'icon.svg']) copyFileSync(join(here, 'src', name), join(out, name));
copyFileSync(join(here, 'src', 'neuroglancer.html'), join(out, 'neuroglancer', 'index.html'));
const licences = bundledPackages({...pages.metafile.inputs, ...volumes.metafile.inputs}).map(licenceOf);
writeFileSync(join(out, 'LICENSES.txt'), `What the viewer's scripts are bundled from.\n\n${licences.join('\n\n')}`);
