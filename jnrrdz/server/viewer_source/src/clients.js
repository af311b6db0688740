// The same data elsewhere: links that open it, and lines that read it.

import {element, text} from './dom.js';

const link = (href, label) => element('a', {href, textContent: label, target: '_blank', rel: 'noopener noreferrer'});

function elsewhere(url, image, neuroglancerState) {
  const group = [url, image.group].filter(Boolean).join('/');
  return [
    ['https://hms-dbmi.github.io', `https://hms-dbmi.github.io/vizarr/?source=${encodeURIComponent(group)}`, 'vizarr'],
    ['https://neuroglancer-demo.appspot.com', `https://neuroglancer-demo.appspot.com/#!${encodeURIComponent(JSON.stringify(neuroglancerState))}`, 'neuroglancer'],
  ];
}

function lines(url, image) {
  const array = `${url}/${image.path}`;
  const quoted = JSON.stringify(url);
  const group = image.path.slice(0, Math.max(image.path.lastIndexOf('/'), 0));
  const name = image.path.slice(image.path.lastIndexOf('/') + 1);
  const inGroup = group ? `, group=${JSON.stringify(group)}` : '';
  const gdal = `ZARR:"/vsicurl/${url}":/${image.path}`;
  return [
    ['Python, xarray', `import xarray as xr\n\ndataset = xr.open_dataset(${quoted}, engine="zarr"${inGroup}, chunks={})\ndataset[${JSON.stringify(name)}]`],
    ['Python, zarr', `import zarr\n\narray = zarr.open_array(${JSON.stringify(array)}, mode="r")\narray[..., :256, :256]`],
    ['Julia, Zarr.jl', `using Zarr\n\narray = zopen(${JSON.stringify(array)})\narray[1:256, 1:256${', 1'.repeat(image.shape.length - 2)}]`],
    ['R, terra', `library(terra)\n\nimage <- rast(${JSON.stringify(gdal)})\nplot(image)`],
    ['JavaScript, zarrita', `import * as zarr from "zarrita";\n\nconst store = new zarr.FetchStore(${quoted});\nconst array = await zarr.open.v3(zarr.root(store).resolve(${JSON.stringify(image.path)}), {kind: "array"});\nconst {data, shape} = await zarr.get(array);`],
    ['QGIS: Layer, Add Raster Layer; or GDAL', `gdalinfo '${gdal}'`],
    ['titiler (xarray), where it runs', `curl 'http://127.0.0.1:8000/md/info?url=${encodeURIComponent(url)}&group=${encodeURIComponent(group)}&variable=${encodeURIComponent(name)}'`],
  ];
}

function copyable(code) {
  const button = element('button', {type: 'button', textContent: 'Copy', onclick: async () => {
    try {
      await navigator.clipboard.writeText(code);
      button.textContent = 'Copied';
    } catch {
      getSelection().selectAllChildren(block); // without the right to write the clipboard, the text is marked
    }
  }});
  const block = text('pre', '', code);
  return element('div', {className: 'code'}, block, button);
}

export function openElsewhere(url, image, neuroglancerState) {
  const links = elsewhere(url, image, neuroglancerState);
  const origins = links.map(([origin]) => `--allow-origin ${origin}`).join(' ');
  const dialog = element(
    'dialog',
    {onclose: () => dialog.remove()},
    element('div', {className: 'top'}, text('h2', '', 'Read this elsewhere'), element('button', {type: 'button', textContent: 'Close', onclick: () => dialog.close()})),
    text('p', 'fact', 'These pages are other sites: your browser fetches them, and the data stays between it and this server. They may read it where the server was started with'),
    copyable(`jnrrdz serve ... ${origins}`),
    element('p', {className: 'links'}, ...links.map(([, href, label]) => link(href, `Open in ${label}`))),
    ...lines(url, image).flatMap(([title, code]) => [text('h3', '', title), copyable(code)]),
  );
  document.body.append(dialog);
  dialog.showModal();
}
