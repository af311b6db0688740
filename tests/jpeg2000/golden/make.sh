#!/usr/bin/env bash
# Makes the codestreams of this folder with OpenJPEG's opj_compress (Debian: libopenjp2-tools), which is
# not needed to run the tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
python3 - "$work" <<'PYTHON'
import pathlib, sys
work = pathlib.Path(sys.argv[1])
def pixel(x, y, c):
    return (x * (3 + c) + y * 5 + (x * y * (c + 1)) // 7 + (31 if (x // 5 + y // 7) % 3 else 0)) % 256
grey = bytes(pixel(x, y, 0) for y in range(75) for x in range(101))
(work / "grey.pgm").write_bytes(b"P5\n101 75\n255\n" + grey)
colour = bytes(pixel(x, y, c) for y in range(75) for x in range(101) for c in range(3))
(work / "colour.ppm").write_bytes(b"P6\n101 75\n255\n" + colour)
luma = bytes(pixel(x, y, 0) for y in range(48) for x in range(64))
chroma = [bytes(pixel(x, y, c) for y in range(24) for x in range(32)) for c in (1, 2)]
(work / "ycc.raw").write_bytes(luma + b"".join(chroma))
wide = [(61, 45), (31, 45), (31, 45)]
tens = [pixel(x, y, c) * 4 + 3 for c, (w, h) in enumerate(wide) for y in range(h) for x in range(w)]
(work / "ycc422.raw").write_bytes(b"".join(value.to_bytes(2, "big") for value in tens))
PYTHON
grey=(-i "$work/grey.pgm") colour=(-i "$work/colour.ppm")
opj_compress "${grey[@]}" -o tiles_tlm.j2k -t 32,32 -n 4 -TLM
opj_compress "${grey[@]}" -o odd_tiles.j2k -t 30,23 -n 4 -p RPCL
opj_compress "${colour[@]}" -o offset.j2k -d 17,12 -T 8,2 -t 37,37 -n 4 -p PCRL -c '[16,16]'
opj_compress "${grey[@]}" -o by_resolution.j2k -t 64,64 -n 4 -p RLCP -TP R -TLM -b 16,16
opj_compress "${grey[@]}" -o by_resolution_plt.j2k -t 64,64 -n 4 -p RPCL -TP R -PLT -b 16,16
opj_compress "${colour[@]}" -o by_layer.j2k -t 64,64 -n 3 -p LRCP -TP L -r 9,4,1
opj_compress "${grey[@]}" -o lossy.j2k -t 64,64 -n 4 -I -q 35
opj_compress -i "$work/ycc.raw" -F 64,48,3,8,u@1x1:2x2:2x2 -o subsampled.j2k -t 32,32 -n 3
opj_compress -i "$work/ycc.raw" -F 64,48,1,8,s -o signed.j2k -t 32,32 -n 3 -p CPRL
opj_compress -i "$work/ycc422.raw" -F 61,45,3,10,u@1x1:2x1:2x1 -o ycc422_offset.j2k -d 4,4 -t 32,32 -n 3
opj_compress "${colour[@]}" -o precincts.j2k -d 17,13 -n 4 -p RPCL -c '[16,16],[16,16],[8,8],[8,8]' -b 8,8 -PLT
opj_compress "${colour[@]}" -o precincts_lossy.j2k -d 17,13 -n 4 -p PCRL -c '[16,16],[16,16],[8,8],[8,8]' -b 8,8 -I -q 30,42 -SOP -EPH
