from pathlib import Path

from convmem.cli.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_configuration_page_is_what_the_code_says():
    assert PAGE.read_text("utf-8") == reference(), "run: python -m convmem.cli.reference > docs/configuration.md"
