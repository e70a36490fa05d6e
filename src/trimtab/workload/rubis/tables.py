"""The auction site's tables; as in the original, no index helps to find the items of a category that end next."""

from __future__ import annotations

from collections.abc import Callable

from trimtab.records import Endpoint
from trimtab.workload.database import Dataset, check_rows
from trimtab.workload.rubis.rows import Rows
from trimtab.workload.rubis.settings import RubisData
from trimtab.workload.server import Session
from trimtab.workload.webapp.load import AppTable, load_tables

__all__ = ["dataset", "tables"]

_ROW_BYTES = 250
"""Of a row that holds no long text, with its indexes."""
_COPIES = 3
"""The rows, their log, and the copy that a run uses."""

_ITEM = (
    "name varchar(100), description text, initial_price double precision, quantity int, reserve_price double precision, "
    "buy_now double precision, nb_of_bids int, max_bid double precision, start_date timestamp(3) NULL, "
    "end_date timestamp(3) NULL, seller int, category int"
)
_USER = (
    "id int {auto}, firstname varchar(20), lastname varchar(20), nickname varchar(20) NOT NULL, password varchar(20) NOT NULL, "
    "email varchar(50) NOT NULL, rating int, balance double precision, creation_date timestamp(3) NULL, region int NOT NULL"
)
_BID = (
    "id int {auto}, user_id int, item_id int, qty int, bid double precision, max_bid double precision, "
    "date timestamp(3) NULL"
)
_COMMENT = (
    "id int {auto}, from_user_id int, to_user_id int, item_id int, rating int, date timestamp(3) NULL, comment text"
)
_BUY_NOW = "id int {auto}, buyer_id int, item_id int, qty int, date timestamp(3) NULL"


def tables(data: RubisData) -> tuple[AppTable, ...]:
    """All tables with their rows."""
    sizes = data.sizes
    rows = Rows(sizes, data.description_length, data.bids_on == "all", data.data_seed)
    key, sold = ("id",), ("seller", "category")
    n_items = sizes.items + sizes.old_items
    return (
        AppTable(name="categories", columns="id int, name varchar(50)", key=key, n_rows=20, rows=rows.categories),
        AppTable(name="regions", columns="id int, name varchar(25)", key=key, n_rows=62, rows=rows.regions),
        AppTable(name="users", columns=_USER, key=key, n_rows=sizes.users, rows=rows.users,
                 indexes=("unique nickname", "nickname, password", "region")),
        AppTable(name="items", columns=f"id int {{auto}}, {_ITEM}", key=key, n_rows=sizes.items, rows=rows.items, indexes=sold),
        AppTable(name="old_items", columns=f"id int, {_ITEM}", key=key, n_rows=sizes.old_items, rows=rows.old_items,
                 indexes=sold),
        AppTable(name="bids", columns=_BID, key=key, n_rows=rows.n_bids, rows=rows.bids, indexes=("item_id", "user_id")),
        AppTable(name="comments", columns=_COMMENT, key=key, n_rows=n_items, rows=rows.comments,
                 indexes=("from_user_id", "to_user_id", "item_id")),
        AppTable(name="buy_now", columns=_BUY_NOW, key=key, n_rows=0, rows=rows.no_rows, indexes=("buyer_id", "item_id")),
    )  # fmt: skip


def dataset(data: RubisData) -> Dataset:
    """What every run starts from."""

    def fill(there: Endpoint, report: Callable[[str], None]) -> None:
        load_tables(there, tables(data), report)

    def check(session: Session) -> str:
        return check_rows(session, {table.name: table.n_rows for table in tables(data)})

    sizes = data.sizes
    n_items = sizes.items + sizes.old_items
    text_bytes = n_items * (data.description_length // 2 + 1024)
    n_rows = sizes.users + 3 * n_items + 10 * n_items
    return Dataset(
        database=data.database,
        content=data.content,
        size_bytes=_COPIES * (text_bytes + _ROW_BYTES * n_rows),
        fill=fill,
        check=check,
    )
