"""How much of the text in images each OCR engine gets right: a program, run by `make ocr`."""
