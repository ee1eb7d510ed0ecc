"""Word documents as Markdown: what a person sees in them, and nothing that the file only says of itself."""

from .conftest import MACROS, TYPES, changed, docx, paragraph

TABLE = (
    """<w:tbl><w:tr><w:tc>{}</w:tc><w:tc>{}</w:tc></w:tr><w:tr><w:tc>{}{}</w:tc><w:tc><w:p/></w:tc></w:tr></w:tbl>"""
)
STYLES = """<?xml version="1.0"?><w:styles xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">
<w:style w:type="paragraph" w:styleId="H1"><w:name w:val="heading 1"/></w:style>
<w:style w:type="paragraph" w:styleId="T"><w:name w:val="Title"/></w:style></w:styles>"""
DOC_RELS = """<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="s" Target="styles.xml"
Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles"/>
</Relationships>"""
STYLED = {"word/styles.xml": STYLES, "word/_rels/document.xml.rels": DOC_RELS}


def test_headings_and_tables(parse):
    cells = map(paragraph, ("Name", "a|b", "one", "two"))
    body = paragraph("Whole", "T") + paragraph("Part", "H1") + paragraph("Text &amp; more") + TABLE.format(*cells)
    head, text, _ = parse(docx(body, more=STYLED))
    assert text == "# Whole\n\n# Part\n\nText & more\n\n| Name | a\\|b |\n|---|---|\n| one<br>two |"
    assert (head["kind"], head["reader"], head["unit"], head["next"]) == ("Word document", "mammoth", "", None)


def test_emphasis_links_and_lists():
    from toolcrib.builtin.documents.docx import to_markdown

    html = (
        "<p>a<strong> b </strong><em>c</em> <a href='https://x.example/'>site</a><a href='#in'>in</a>"
        "<a id='x' /> 10<sup>6</sup><sup><a href='#n'>[1]</a></sup><br />new</p>"
        "<ul><li>one<ul><li>two</li></ul></li><li /></ul><ol><li>x</li><li><p>y</p><p>z</p></li></ol>"
        "<p><img alt='a cat' src='' /><img src='' /></p>"
    )
    assert to_markdown(html) == (
        "a **b** *c* [site](https://x.example/)in 10<sup>6</sup>[1]\nnew\n\n"
        "- one\n  - two\n-\n\n1. x\n\n2. y\n\n   z\n\n[image: a cat][image]"
    )


def test_cells_that_span():
    from toolcrib.builtin.documents.docx import to_markdown

    html = (
        "<table><thead><tr><th colspan='2'>wide</th><th>c</th></tr></thead>"
        "<tbody><tr><td rowspan='2'>tall</td><td>1</td><td>2</td></tr><tr><td>3</td><td>4</td></tr></tbody></table>"
    )
    assert to_markdown(html) == "| wide |  | c |\n|---|---|---|\n| tall | 1 | 2 |\n|  | 3 | 4 |"
    assert to_markdown("<table><tr><td><p>in a</p><p>frame</p></td></tr></table>") == "in a\n\nframe"


def test_reading_on_by_lines(parse):
    body = "".join(paragraph(f"paragraph {n} " + "word " * 50) for n in range(400))
    data = docx(body)
    found, offset = "", 1
    for _ in range(20):
        head, text, _ = parse(data, offset=offset)
        assert len(text.encode()) <= 45_000
        found += text + "\n"
        if head["next"] is None:
            break
        assert head["next"][0] is None
        offset = head["next"][1]
    assert [f"paragraph {n} " in found for n in range(400)] == [True] * 400
    assert parse(data, offset=100_000)[0]["refused"].endswith("offset 100000 is past its end")
    assert "no pages" in parse(data, pages="2")[0]["refused"]


def test_long_lines_are_divided_at_blanks(parse):
    _, text, _ = parse(docx(paragraph("word " * 4000)), budget=200_000)
    assert max(map(len, text.split("\n"))) <= 4000
    assert text.replace("\n", "").split() == ["word"] * 4000


def test_macros_are_named_and_not_needed(parse):
    data = docx(paragraph("harmless"), more={"word/vbaProject.bin": b"\0"})
    plain = b"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    head, text, _ = parse(changed(data, {"[Content_Types].xml": lambda types: types.replace(plain, MACROS)}))
    assert text == "harmless"
    assert "macros" in head["notes"][0]


def test_a_document_does_not_read_other_files(parse, tmp_path):
    (tmp_path / "secret.png").write_bytes(b"very secret")
    rels = DOC_RELS.replace(
        "</Relationships>",
        '<Relationship Id="i" TargetMode="External" Target="file://%s" Type="http://schemas.openxmlformats.org/'
        'officeDocument/2006/relationships/image"/></Relationships>' % (tmp_path / "secret.png"),
    )
    drawing = (
        '<w:p><w:r><w:drawing><wp:inline xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing">'
        '<wp:docPr descr="a chart"/><a:graphic xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main">'
        '<a:graphicData><pic:pic xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"><pic:blipFill>'
        '<a:blip r:link="i" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"/>'
        "</pic:blipFill></pic:pic></a:graphicData></a:graphic></wp:inline></w:drawing></w:r></w:p>"
    )
    members = {"word/styles.xml": STYLES, "word/_rels/document.xml.rels": rels}
    head, text, pictures = parse(docx(paragraph("text") + drawing, more=members))
    assert "refused" not in head
    assert text == "text\n\n[image: a chart]"
    assert pictures == []


def test_what_nobody_sees_is_left_out(parse):
    _, text, _ = parse(docx(paragraph("seen\U000e0041\U000e0042 \u202e")))
    assert text == "seen \\u202e"


def test_damage_is_named(parse):
    assert "damaged" in parse(docx("")[:-30])[0]["refused"]
    assert "damaged" in parse(docx("<w:p>&"))[0]["refused"]
    assert "damaged" in parse(b"PK\3\4" + docx("")[40:])[0]["refused"]  # its places are before its beginning
    assert "is not XML" in parse(docx("<w:p>"[:-1], prolog="<<"))[0]["refused"]
    without = docx("", more={"[Content_Types].xml": TYPES.replace("/word/", "/gone/")})
    assert "text" in parse(without)[0] or "damaged" in parse(without)[0]["refused"]
    assert "damaged" in parse(changed(docx(""), {"word/document.xml": lambda _: b"<x/>"}))[0].get("refused", "damaged")
