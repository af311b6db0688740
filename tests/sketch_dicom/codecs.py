"""The codec of DICOM's run lengths: its configuration and its record."""

from typing import ClassVar

from jnrrdz.core.configuration import NO_AXES, CodecRecord, Configuration, Stage
from jnrrdz.records import record

DICOM_RLE = "dicom-rle"


@record
class DicomRleConfig(Configuration):
    """Nothing: shape and type of a chunk say how many segments a frame has."""

    NAME: ClassVar[str] = DICOM_RLE


RECORDS = (
    CodecRecord(
        DICOM_RLE,
        Stage.PIXELS,
        NO_AXES,
        config=DicomRleConfig,
        codec_class="jnrrdz.codecs.tiles:DicomRleCodec",
        decoder=f"{__package__}.decode:RleDecoder",
    ),
)
