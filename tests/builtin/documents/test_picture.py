"""Images: upright, small enough, and without what a camera noted."""

import io

import pytest

from toolcrib import Toolbox

from .conftest import png

Image = pytest.importorskip("PIL.Image")
ORIENTATION, MAKER = 0x0112, 0x010F


def saved(image, format, **more) -> bytes:  # noqa: A002
    out = io.BytesIO()
    image.save(out, format, **more)
    return out.getvalue()


def opened(data: bytes):
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def with_notes(**more) -> dict:
    exif = Image.Exif()
    exif[MAKER] = "A Camera Of Somebody"
    for name, value in more.items():
        exif[int(name[1:])] = value
    return {"exif": exif}


@pytest.mark.parametrize(
    ("format", "mime"),
    [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("WEBP", "image/jpeg"), ("TIFF", "image/png"), ("GIF", "image/png")],
)
def test_nothing_but_the_picture_is_handed_on(parse, format, mime):  # noqa: A002
    noted = with_notes() if format != "GIF" else {"comment": b"A Camera Of Somebody"}
    if format == "JPEG":
        noted["comment"] = b"A Camera Of Somebody"
    data = saved(Image.new("RGB", (40, 20), "red"), format, **noted)
    assert b"Camera" in data
    head, text, (picture,) = parse(data)
    assert head["pictures"][0][0] == mime
    assert b"Camera" not in picture
    assert "40×20" in text
    image = opened(picture)
    assert image.size == (40, 20)
    red, green, blue = image.convert("RGB").getpixel((20, 10))
    assert red > 240 and green < 15 and blue < 15


def test_a_bare_png_is_handed_on_as_it_is(parse):
    data = saved(Image.new("RGB", (40, 20), "red"), "PNG")
    assert parse(data)[2] == [data]
    assert b"trailer" not in parse(data + b"trailer")[2][0]


def test_it_is_turned_upright_and_scaled_down(parse):
    data = saved(Image.new("RGB", (3000, 1000), "red"), "JPEG", **with_notes(x274=6))
    (picture,) = parse(data)[2]
    image = opened(picture)
    assert image.size == (523, 1568)
    assert not image.getexif()


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16", "CMYK"])
def test_all_kinds_of_pixels(parse, mode):
    image = Image.new(mode, (2000, 30))
    format = "TIFF" if mode == "CMYK" else "PNG"  # noqa: A001
    head, _, (picture,) = parse(saved(image, format))
    assert head["pictures"][0][0] == "image/png"
    assert opened(picture).size[0] == 1568


def test_pages_of_a_tiff_and_frames_of_a_gif(parse):
    image, other = Image.new("RGB", (40, 20), "red"), Image.new("RGB", (40, 20), "blue")
    head, text, pictures = parse(saved(image, "TIFF", save_all=True, append_images=[other, image]), pages="2-")
    assert len(pictures) == 2
    assert opened(pictures[0]).getpixel((0, 0)) == (0, 0, 255)
    assert "page 2 of 3" in text
    head, _, pictures = parse(saved(image, "GIF", save_all=True, append_images=[other]))
    assert len(pictures) == 1
    assert head["notes"] == ["the first of its 2 frames"] or "2 frames" in head["notes"][0]


def test_what_cannot_be_shown_is_named(parse):
    data = png(40, 20)
    assert "damaged image" in parse(data[:45])[0]["refused"]
    assert "50000×50000" in parse(png(50_000, 50_000))[0]["refused"]
    assert "image/heic" in parse(b"\0\0\0\x18ftypheic" + bytes(50))[0]["refused"]


async def test_an_encoding_leaves_a_picture_a_picture(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    async with Toolbox.open(workspace=tmp_path) as box:
        output = await box.call("read_file", {"path": "a.png", "encoding": "utf-8"})
    assert [block.type for block in output.content] == ["image"]
