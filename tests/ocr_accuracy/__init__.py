"""Measures the accuracy of each OCR engine: a program, run by `make ocr`."""
