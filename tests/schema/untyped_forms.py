"""Typing forms without a type of their own: tests build types that no checker could follow."""

from __future__ import annotations

import collections
import typing as t

import attrs

List: t.Any = list
Dict: t.Any = dict
Tuple: t.Any = tuple
Union: t.Any = t.Union
Literal: t.Any = t.Literal
TypedDict: t.Any = t.TypedDict
namedtuple: t.Any = collections.namedtuple
attribute: t.Any = attrs.field
make_attrs: t.Any = attrs.make_class
