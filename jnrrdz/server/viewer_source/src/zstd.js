// The codec zstd as zarrita and neuroglancer take it from numcodecs, decoded by zstddec.

import {ZSTDDecoder} from 'zstddec';

const decoder = new ZSTDDecoder();

export default class Zstd {
  static codecId = 'zstd';
  kind = 'bytes_to_bytes';

  static fromConfig() {
    return new Zstd();
  }

  async decode(bytes) {
    await decoder.init();
    return decoder.decode(bytes);
  }
}
