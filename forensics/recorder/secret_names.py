"""Which names say that their value is secret, and which values could be one."""

from __future__ import annotations

import re
from functools import lru_cache


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A word of these makes any value secret.
_SECRET = _words(
    "secret secrets password passwords passwd passphrase passcode pwd credential credentials cred creds apikey "
    "authtoken accesstoken accesskey secretkey privatekey authorization cookie cookies jwt sessionid sessid "
    "sshpass"
)
_SECRET_ENDINGS = ("password", "passwd", "passphrase", "apikey", "accesskey", "secretkey", "authtoken", "sessionid")
_SECRET_IN_CHINESE = ("密码", "口令", "密钥", "令牌")
# What stands before "key", "token" or "pass" in the names of secrets.
_OWNERS = _words(
    "api access secret private auth oauth encryption encrypt crypto cipher signing sign ssh ssl tls aes rsa hmac gpg "
    "master service account license licence client storage session subscription deploy bot user personal refresh "
    "bearer id security app application admin root db database mysql postgres redis smtp ftp sudo proxy registry "
    "github gitlab gitee hf huggingface hub wandb swanlab openai anthropic deepseek dashscope modelscope modelarts "
    "openi comet neptune mlflow slack aws azure gcp google obs s3 oss minio npm pypi gh gl csrf xsrf"
)
_OWNED = _words("key keys token tokens pass pat")
# What stands before "token" in the vocabulary of language models.
_LANGUAGE = _words(
    "pad eos bos unk mask cls sep sos special image video audio start end stop next first last decoder encoder prompt "
    "max min num n per new total ignore added system assistant bad forced vocab draft begin lang language"
)
# What a name ends in when it speaks about a secret without holding one.
_ABOUT = _words(
    "length len size count num type types mode name names file path dir ttl expiry expires expire expiration timeout "
    "policy strength algorithm enabled required field fields prompt hint error invalid limit dropout dim dims mask "
    "embedding embeddings embed proj projection layer head heads index indices class shape loss states url uri"
)
_WEAK = _words("key token auth oauth signature sig session private sas pass pat webhook")
_HARMLESS = frozenset(("pwd", "oldpwd", "ssh_auth_sock", "xdg_session_type", "xdg_session_class"))
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

# Placeholders, literals and references: what stands where a secret would, and is none.
_PLACEHOLDER = re.compile(
    r"""(?ix) (?: none | null | nil | true | false | yes | no | on | off | undefined | empty | str | string | int
    | bytes | required | optional | set | unset | missing | invalid | \*+ | x{3,} | -?\d{1,3}
    | [-+]?\d*\.\d+(?:e[-+]?\d+)?
    | \$\{?\w+\}? | \$\(.* | %\(?\w+\)?[sd%]? | <[^>]*>? | \{[\w.]*\}? | \[[^\]]*\]? | \([^)]*\)? | «redacted:.*
    | \W* )"""
)
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w.@+~-]+(?:/[\w.@+~-]*)*|[A-Za-z]:\\.*")
_PLAIN_NAME = re.compile(
    r"[A-Za-z_]\w*(?:\.\w+)+|[\w-]+(?:/[\w.-]+)+|[A-Za-z]+(?:[_-][A-Za-z]+)*\d{0,3}|v?\d+(?:\.\w+)+"
)


@lru_cache(4096)
def strength(name: str) -> int:
    """2: any value of that name is secret; 1: a value that looks like a secret is one; 0: harmless."""
    bare = name.strip("-").lower()
    if bare in _HARMLESS or len(name) > 200:
        return 0
    if any(word in bare for word in _SECRET_IN_CHINESE):
        return 2
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _ABOUT:
        return 0
    if _SECRET.intersection(words) or any(word.endswith(_SECRET_ENDINGS) for word in words):
        return 2
    last, before = words[-1], words[:-1]
    if last == "id" and words[-2:-1] in (["key"], ["session"]):
        return 1
    if last in _OWNED and before and before[-1] in _OWNERS:
        return 1 if last in ("keys", "tokens") else 2
    if _LANGUAGE.intersection(before):
        return 0
    if last.endswith("token") and len(last) > len("token"):
        return 1
    return 1 if last in _WEAK else 0


def holds_secret(name: str, value: str, *, certain: bool = False) -> bool:
    """Whether this value under this name is to be taken out. `certain`: the name can have no harmless meaning there."""
    level = strength(name)
    if level == 0 or _PLACEHOLDER.fullmatch(value):
        return False
    if level == 2 or certain:
        return True
    if any(c.isspace() or c in "()[]{}<>" for c in value) or _PATH.fullmatch(value) or _PLAIN_NAME.fullmatch(value):
        return False
    kinds = (any(c.islower() for c in value), any(c.isupper() for c in value), any(c.isdigit() for c in value))
    # "key" is a word of dictionaries and of attention as well: only a long value makes it one of locks.
    shortest = 16 if name.lower().endswith("key") else 6
    return len(value) >= shortest and sum(kinds) >= 2


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name may hold a secret, judged by the name alone; True when it cannot be judged."""
    try:
        return strength(str.__str__(name)) > 0
    except Exception:
        return True
