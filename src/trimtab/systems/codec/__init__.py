"""Codecs: the syntaxes of configuration files, pure, from text to text."""

from __future__ import annotations

from trimtab.errors import UsageError
from trimtab.systems.codec.base import Codec, CodecError, Entry, Located, SeveralError
from trimtab.systems.codec.directives import Directives, Nginx, RedisConf
from trimtab.systems.codec.jvm_options import JvmOptions
from trimtab.systems.codec.lines import Ini, KeyValue
from trimtab.systems.codec.mongod_conf import MongodConf
from trimtab.systems.codec.scalar import Scalar
from trimtab.systems.codec.template import Template
from trimtab.systems.codec.xml_attributes import XmlAttributes
from trimtab.systems.codec.yaml_lines import YamlLines

__all__ = ["CODECS", "Codec", "CodecError", "Entry", "Located", "SeveralError", "Template", "codec_of"]

CODECS: dict[str, type[Codec]] = {
    codec.name: codec
    for codec in (
        Directives,
        Ini,
        JvmOptions,
        KeyValue,
        MongodConf,
        Nginx,
        RedisConf,
        Scalar,
        Template,
        XmlAttributes,
        YamlLines,
    )
}


def codec_of(name: str, *, template: str = "") -> Codec:
    """The codec of that name; `template` is the text of a template codec.

    Raises:
        UsageError: there is no such codec, or the template is wrong.
    """
    if name not in CODECS:
        raise UsageError(f"unknown codec={name!r}", hint=f"use one of: {', '.join(sorted(CODECS))}")
    return Template(template) if name == Template.name else CODECS[name]()
