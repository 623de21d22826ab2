"""`litedelegate bundle`: make, look into, check, download and run bundles."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from ..runtime.interpreter import Interpreter
from . import inputs as sources
from . import show
from .failures import EXIT_CODES, Failure, reported
from .options import Command, input_options
from .run import output_options, run_session
from .session import Session

if TYPE_CHECKING:
    from ..customops.bundle_keys import Key

KEYS = """\b
Where a key can come from:
  file:PATH or PATH   a file that `bundle keygen` made
  env:NAME            an environment variable: such a line, or a passphrase
  ask                 a passphrase, typed in"""

EXAMPLES = """\b
Examples:
  litedelegate bundle keygen signer sign.key            # prints the public line for the others
  litedelegate bundle keygen recipient device.key
  litedelegate bundle create out.ldb --name kws --signer sign.key --reader device.key.pub \\
      --model kws.tflite --python-op Atan=my_ops.atan:atan --release 7
  litedelegate bundle fetch https://example.com/kws.ldb kws.ldb --trusted sign.key.pub
  litedelegate bundle run kws.ldb --key device.key --trusted sign.key.pub --input x.npy"""

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_OUT = click.Path(dir_okay=False, path_type=Path)


@contextmanager
def _failures() -> Iterator[None]:
    """Also those of an extra that is not installed."""
    try:
        with reported():
            yield
    except ImportError as error:
        raise Failure(str(error)) from error


def _key(source: str) -> Key:
    from ..customops.bundle_keys import Key

    if source == "ask":
        return Key.passphrase(click.prompt("passphrase", hide_input=True, err=True))
    kind, _, rest = source.partition(":")
    if kind == "env":
        return Key.from_env(rest)
    return Key.from_file(rest if kind == "file" else source)


def _trust_options(command: Command) -> Command:
    options = [
        click.option("--trusted", multiple=True, required=True, metavar="KEY",
                     help="A signer's public key. Can be given several times."),
        click.option("--minimum-release", type=click.IntRange(0), default=0, metavar="N",
                     help="Refuse older releases than this."),
        click.option("--releases", type=_OUT, metavar="FILE",
                     help="A file that holds the newest release seen of each bundle; older ones "
                     "are refused."),
        click.option("--name", metavar="NAME", help="The name that the bundle must have."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def _trust(
    trusted: tuple[str, ...], minimum_release: int, releases: Path | None, name: str | None
) -> dict[str, Any]:
    from ..customops.bundle import ReleaseFile

    return {
        "trusted": [_key(k) for k in trusted],
        "minimum_release": minimum_release,
        "releases": ReleaseFile(releases) if releases else None,
        "name": name,
    }


@click.group("bundle", epilog=f"{EXAMPLES}\n\n{KEYS}", short_help="Models and ops, signed.")
def command() -> None:
    """Models and their custom ops in one file: signed, encrypted, compressed."""


@command.command("keygen", short_help="Make a key.")
@click.argument("kind", type=click.Choice(["signer", "recipient", "secret"]))
@click.argument("path", type=_OUT)
def keygen(kind: str, path: Path) -> None:
    """Write a new key to PATH, which only you can read, and its public part to PATH.pub.

    A signer signs bundles; a recipient opens those made for its public part; a secret is one key
    that both sides have.
    """
    with _failures():
        from ..customops.bundle_keys import Key

        with Key.generate(kind) as key:
            if kind == "secret":
                key.save(path)
                click.echo(f"{path} written: both sides need it")
                return
            public = path.with_name(f"{path.name}.pub")
            key.public().save(public)
            try:
                key.save(path)
            except BaseException:  # both or none
                public.unlink()
                raise
            click.echo(f"{path} and {public} written; the public part:\n{key.public().text()}")


@command.command("create", epilog=KEYS, short_help="Make a bundle.")
@click.argument("path", type=_OUT)
@click.option("--name", required=True, help="What it is called.")
@click.option("--version", default="1", show_default=True, help="Its version, for people.")
@click.option("--release", type=click.IntRange(0), default=1, show_default=True,
              help="A number that grows with each bundle of this name.")  # fmt: skip
@click.option("--signer", required=True, metavar="KEY", help="The signer's key.")
@click.option("--reader", "readers", multiple=True, required=True, metavar="KEY",
              help="Who can open it: a recipient's public key, a passphrase or a secret. "
              "Can be given several times.")  # fmt: skip
@click.option("--model", "models", multiple=True, metavar="[NAME=]FILE", help="A model.")
@click.option("--library", "libraries", multiple=True, metavar="NAME:PLATFORM:OP[,OP]=FILE",
              help="An op library for one platform, such as ops:x86_64-linux-gnu:Atan=ops.so.",
              )  # fmt: skip
@click.option("--python-op", "python_ops", multiple=True, metavar="OP=MODULE:NAME",
              help="An op that is installed where the bundle is opened.")  # fmt: skip
@click.option("--cipher", type=click.Choice(["aes-256-gcm", "chacha20-poly1305"]),
              default="aes-256-gcm", show_default=True)  # fmt: skip
@click.option("--level", type=click.IntRange(1, 19), default=9, show_default=True,
              help="How hard to compress.")  # fmt: skip
def create(
    path: Path,
    signer: str,
    readers: tuple[str, ...],
    models: tuple[str, ...],
    libraries: tuple[str, ...],
    python_ops: tuple[str, ...],
    **options: Any,
) -> None:
    """Pack models and ops into PATH."""
    with _failures():
        from ..customops.bundle import Bundle, Library

        packed = []
        for text in libraries:
            head, file = _pair("library", text)
            name, platform, ops = ([*head.split(":"), "", ""])[:3]
            packed.append(Library(name, platform, file, tuple(o for o in ops.split(",") if o)))
        with _key(signer) as key:
            manifest = Bundle.create(
                path,
                signer=key,
                readers=[_key(r) for r in readers],
                models=dict(_named(text) for text in models),
                libraries=packed,
                python_ops=dict(_pair("python-op", text) for text in python_ops),
                **options,
            )
    click.echo(
        f"{path} written: {manifest.name} {manifest.version}, release {manifest.release}, "
        f"{show.nbytes(path.stat().st_size)}"
    )


def _pair(option: str, text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name or not value:
        raise click.UsageError(f"--{option} {text!r}: it takes NAME=VALUE")
    return name, value


def _named(text: str) -> tuple[str, Path]:
    name, sign, file = text.rpartition("=")
    path = Path(file)
    return (name if sign else path.stem), path


@command.command("inspect", short_help="Show what a bundle holds, without a key.")
@click.argument("path", type=_FILE, metavar="BUNDLE")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def inspect(path: Path, as_json: bool) -> None:
    """Show the manifest of BUNDLE. It says what the signer says, whoever that is."""
    with _failures():
        from ..customops.bundle import inspect as read
        from ..customops.bundle_keys import Key

        checked = read(path)
        manifest = checked.manifest
        signer = Key("signer-public", checked.envelope.signer)
        line = signer.text()
    if as_json:
        show.print_json({"signer": line, **dataclasses.asdict(manifest)})
        return
    out = show.console()
    readers = [f"{k.kind} {k.public[:16]}".strip() for k in manifest.keys]
    out.print(
        show.facts(
            [
                ("bundle", f"{manifest.name} {show.name(manifest.version)}"),
                ("release", manifest.release),
                ("signer", f"{line}  [yellow](not checked against anybody you trust)[/]"),
                ("opens with", ", ".join(readers)),
                ("cipher", f"{manifest.cipher}, chunks of {show.nbytes(manifest.chunk)}"),
            ]
        ),
        "",
    )
    rows = [
        (
            p.kind,
            show.name(p.name),
            show.name(p.version),
            p.platform,
            show.listing(p.ops),
            show.nbytes(p.size),
            show.nbytes(p.stored),
        )
        for p in manifest.parts
    ]
    heads = ["kind", "name", "version", "platform", "registers", ">size", ">stored"]
    out.print(show.table("Parts", heads, rows))
    if manifest.python_ops:
        ops = [(show.name(o.op), show.name(o.entry)) for o in manifest.python_ops]
        out.print(show.table("Ops in Python", ["op", "installed as"], ops))


@command.command("verify", epilog=KEYS, short_help="Check signature, release and digests.")
@click.argument("path", type=_FILE, metavar="BUNDLE")
@_trust_options
def verify(path: Path, **trust: Any) -> None:
    """Check all of BUNDLE that can be checked without a key that opens it."""
    with _failures():
        from ..customops.bundle import verify as check

        manifest = check(path, **_trust(**trust)).manifest
    click.echo(f"{path} is whole: {manifest.name}, release {manifest.release}")


@command.command("fetch", epilog=KEYS, short_help="Download a bundle.")
@click.argument("url")
@click.argument("path", type=_OUT)
@_trust_options
@click.option("--sha256", metavar="DIGEST", help="The digest of the file.")
@click.option("--allow-http", is_flag=True, help="Take plain HTTP from other machines too.")
@click.option("--tries", type=click.IntRange(1), default=5, show_default=True)
@click.option("--timeout", type=click.FloatRange(0.1), default=30.0, show_default=True,
              help="Seconds until a silent server counts as a break.")  # fmt: skip
def fetch(
    url: str,
    path: Path,
    sha256: str | None,
    allow_http: bool,
    tries: int,
    timeout: float,
    **trust: Any,
) -> None:
    """Download URL to PATH: goes on after a break, checks, and only then replaces PATH."""
    err = Console(stderr=True)
    columns = (
        TextColumn("download"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with _failures():
        from ..customops.bundle import fetch as download

        with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
            task = bar.add_task("download", total=None)
            download(
                url,
                path,
                sha256=sha256,
                allow_http=allow_http,
                tries=tries,
                timeout=timeout,
                progress=lambda have, total: bar.update(task, completed=have, total=total),
                **_trust(**trust),
            )
    click.echo(f"{path} written and checked")


@command.command("run", epilog=f"{sources.SOURCES}\n\n{KEYS}\n\n{EXIT_CODES}",
                 short_help="Run a model of a bundle once.")  # fmt: skip
@click.argument("path", type=_FILE, metavar="BUNDLE")
@click.option("--key", required=True, metavar="KEY", help="What opens it.")
@_trust_options
@click.option("--model", metavar="NAME", help="Which of several models.")
@input_options()
@output_options
def run(
    path: Path,
    key: str,
    trusted: tuple[str, ...],
    minimum_release: int,
    releases: Path | None,
    name: str | None,
    model: str | None,
    **options: Any,
) -> None:
    """Open BUNDLE in memory and run a model of it once."""
    with _failures():
        from ..customops.bundle import Bundle

        trust = _trust(trusted, minimum_release, releases, name)
        with _key(key) as opened, Bundle.open(path, key=opened, **trust) as bundle:

            def make(**arguments: Any) -> Interpreter:
                return bundle.interpreter(model, **arguments)

            run_session(f"{path}", lambda **session: Session(make, **session), **options)
