"""The bookshop's tables, with the indexes that measured implementations have."""

from __future__ import annotations

from collections.abc import Callable

from trimtab.records import Endpoint
from trimtab.workload.database import Dataset, check_rows
from trimtab.workload.server import Session
from trimtab.workload.tpcw.names import COUNTRIES
from trimtab.workload.tpcw.rows import Rows
from trimtab.workload.tpcw.settings import TpcwData
from trimtab.workload.webapp.load import AppTable, load_tables

__all__ = ["dataset", "tables"]

_COPIES = 3
"""The rows, their log, and the copy that a run uses."""
_CUSTOMER_BYTES, _ITEM_BYTES = 4000, 1500
"""Of one, with all rows that belong to it."""

_COUNTRY = "co_id int, co_name varchar(50), co_exchange double precision, co_currency varchar(18)"
_AUTHOR = "a_id int, a_fname varchar(20), a_lname varchar(20), a_mname varchar(20), a_dob date, a_bio varchar(500)"
_ITEM = (
    "i_id int, i_title varchar(60), i_a_id int, i_pub_date date, i_publisher varchar(60), i_subject varchar(60), "
    "i_desc varchar(500), i_related1 int, i_related2 int, i_related3 int, i_related4 int, i_related5 int, "
    "i_thumbnail varchar(40), i_image varchar(40), i_srp double precision, i_cost double precision, i_avail date, i_stock int, "
    "i_isbn char(13), i_page int, i_backing varchar(15), i_dimensions varchar(25)"
)
_CUSTOMER = (
    "c_id int {auto}, c_uname varchar(20), c_passwd varchar(20), c_fname varchar(17), c_lname varchar(17), c_addr_id int, "
    "c_phone varchar(18), c_email varchar(50), c_since date, c_last_login date, c_login timestamp(3) NULL, "
    "c_expiration timestamp(3) NULL, c_discount real, c_balance double precision, c_ytd_pmt double precision, "
    "c_birthdate date, c_data varchar(500)"
)
_ADDRESS = (
    "addr_id int {auto}, addr_street1 varchar(40), addr_street2 varchar(40), addr_city varchar(30), addr_state varchar(20), "
    "addr_zip varchar(10), addr_co_id int"
)
_ORDER = (
    "o_id int {auto}, o_c_id int, o_date timestamp(3) NULL, o_sub_total double precision, o_tax double precision, "
    "o_total double precision, o_ship_type varchar(10), o_ship_date timestamp(3) NULL, o_bill_addr_id int, "
    "o_ship_addr_id int, o_status varchar(15)"
)
_LINE = "ol_id int, ol_o_id int, ol_i_id int, ol_qty int, ol_discount double precision, ol_comments varchar(110)"
_PAYMENT = (
    "cx_o_id int, cx_type varchar(10), cx_num varchar(20), cx_name varchar(30), cx_expire date, cx_auth_id char(15), "
    "cx_xact_amt double precision, cx_xact_date date, cx_co_id int"
)


def tables(data: TpcwData) -> tuple[AppTable, ...]:
    """All tables with their rows."""
    rows = Rows(data.customers, data.items, data.data_seed)
    return (
        AppTable(name="country", columns=_COUNTRY, key=("co_id",), n_rows=len(COUNTRIES), rows=rows.country_rows,
                 indexes=("co_name",)),
        AppTable(name="author", columns=_AUTHOR, key=("a_id",), n_rows=rows.authors, rows=rows.author_rows, indexes=("a_lname",)),
        AppTable(name="item", columns=_ITEM, key=("i_id",), n_rows=rows.items, rows=rows.item_rows,
                 indexes=("i_title", "i_subject", "i_a_id")),
        AppTable(name="customer", columns=_CUSTOMER, key=("c_id",), n_rows=rows.customers, rows=rows.customer_rows,
                 indexes=("c_addr_id", "c_uname")),
        AppTable(name="address", columns=_ADDRESS, key=("addr_id",), n_rows=rows.addresses, rows=rows.address_rows,
                 indexes=("addr_co_id", "addr_zip")),
        AppTable(name="orders", columns=_ORDER, key=("o_id",), n_rows=rows.orders, rows=rows.order_rows, indexes=("o_c_id",)),
        AppTable(name="order_line", columns=_LINE, key=("ol_id", "ol_o_id"), n_rows=rows.n_lines, rows=rows.line_rows,
                 indexes=("ol_i_id", "ol_o_id")),
        AppTable(name="cc_xacts", columns=_PAYMENT, key=("cx_o_id",), n_rows=rows.orders, rows=rows.payment_rows),
        AppTable(name="shopping_cart", columns="sc_id int {auto}, sc_time timestamp(3) NULL", key=("sc_id",), n_rows=rows.carts,
                 rows=rows.cart_rows),
        AppTable(name="shopping_cart_line", columns="scl_sc_id int, scl_i_id int, scl_qty int", key=("scl_sc_id", "scl_i_id"),
                 n_rows=rows.n_cart_lines, rows=rows.cart_line_rows, indexes=("scl_i_id",)),
    )  # fmt: skip


def dataset(data: TpcwData) -> Dataset:
    """What every run starts from."""

    def fill(there: Endpoint, report: Callable[[str], None]) -> None:
        load_tables(there, tables(data), report)

    def check(session: Session) -> str:
        return check_rows(session, {table.name: table.n_rows for table in tables(data)})

    return Dataset(
        database=data.database,
        content=data.content,
        size_bytes=_COPIES * (_CUSTOMER_BYTES * data.customers + _ITEM_BYTES * data.items),
        fill=fill,
        check=check,
    )
