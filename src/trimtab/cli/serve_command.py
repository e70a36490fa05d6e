"""trimtab serve: sessions over HTTP, with a dashboard."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli.options import history_option, say, state_option

__all__ = ["command"]


@click.command("serve")
@state_option
@history_option
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=1979,
    show_default=True,
    metavar="PORT",
    help="Port; 0 takes a free one.",
)
@click.option(
    "--name", "names", multiple=True, metavar="NAME", help="Name by which clients call this server; may be repeated."
)
@click.option("--cert", type=click.Path(path_type=Path), metavar="FILE", help="TLS certificate (PEM).")
@click.option("--key", type=click.Path(path_type=Path), metavar="FILE", help="Key of the certificate (PEM).")
@click.option(
    "--studies",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Folder of study files that the dashboard may start.",
)
@click.option("--sync", is_flag=True, help="Answer each report only after it is on disk; default: up to 1 s earlier.")
@click.option("--no-token", is_flag=True, help="Ask for no token: whoever reaches the port may do everything.")
@click.option("--insecure", is_flag=True, help="Serve other machines without a token or without TLS.")
def command(
    state_dir: Path,
    history_url: str | None,
    host: str,
    port: int,
    names: tuple[str, ...],
    cert: Path | None,
    key: Path | None,
    studies: Path | None,
    sync: bool,
    no_token: bool,
    insecure: bool,
) -> int:
    """Serve sessions to programs that tune themselves, and a dashboard of all studies.

    The token is taken from TRIMTAB_TOKEN, or made once and kept in STATE/serve.token. Ctrl-C ends the server; sessions go on
    when it is started again.
    """  # fmt: skip
    from trimtab.plugins import require_extra
    from trimtab.serve.settings import TOKEN_FILE, ServeSettings, read_token

    require_extra("trimtab serve", "serve", "starlette", "uvicorn")
    token, is_new = ("", False) if no_token else read_token(state_dir)
    settings = ServeSettings(
        host=host, port=port, token=token, names=tuple(n.lower() for n in names), cert=cert, key=key, is_forced=insecure,
        studies=studies, sync_s=0.0 if sync else 1.0,
    )  # fmt: skip
    from trimtab.serve.run import run

    def started(url: str) -> None:
        say(f"serving at {url}; API under {url}/api/v1; Ctrl-C ends it")
        if is_new:
            say(f"token: {token} (kept in {state_dir / TOKEN_FILE}; it is not shown again)")
            say(f"dashboard: {url}/#token={token}")
        elif token:
            say(f"dashboard: {url}/ (it asks for the token, which is in TRIMTAB_TOKEN or {state_dir / TOKEN_FILE})")

    run(settings, state_dir, history_url, started)
    return 0
