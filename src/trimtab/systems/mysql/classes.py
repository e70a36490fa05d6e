"""Which MySQL and MariaDB variables are dangerous, in code and not in a list that a user can edit.

`FORBIDDEN` can never be set by Trimtab: these run code, write files, lock users or the tuner out, hide damage, or are fixed
when the data directory is made. What MariaDB really does with them stands in the comments. The other classes are the
catalogue's (`safety = ...`); this module says which class a variable that the catalogue does not know falls into. Names with
"slave" or "master" stand beside those that MySQL uses from 8.0.26 on ("replica", "source").
"""

from __future__ import annotations

from trimtab.space import SafetyClass
from trimtab.systems.forbidden import Forbidden

__all__ = ["FORBIDDEN", "SECRET", "forbidden_reason", "safety_of"]

_RUNS_CODE = frozenset(
    {
        "event_scheduler",  # starts whatever events lie there
        "init_connect",  # garbage in it cuts off every user without SUPER
        "init_file",
        "init_replica",
        "init_slave",
        "mandatory_roles",
        "plugin_dir",
        "plugin_load",
        "plugin_load_add",
        "plugin_maturity",
        "wsrep_notify_cmd",
        "wsrep_provider",
        "wsrep_provider_options",
    }
)
_WRITES_FILES = frozenset(
    {
        "aria_log_dir_path",
        "basedir",
        "character_sets_dir",
        "datadir",
        "general_log",
        "general_log_file",  # MariaDB 10.11 takes a path that ends in .cnf
        "innodb_buffer_pool_filename",
        "innodb_data_file_path",
        "innodb_data_home_dir",
        "innodb_log_group_home_dir",
        "innodb_temp_data_file_path",
        "innodb_tmpdir",
        "innodb_undo_directory",
        "lc_messages_dir",
        "log_bin",
        "log_bin_index",
        "log_error",
        "log_output",
        "log_slow_query",
        "log_slow_query_file",
        "pid_file",
        "relay_log",
        "relay_log_index",
        "relay_log_info_file",
        "replica_load_tmpdir",
        "secure_file_priv",
        "slave_load_tmpdir",
        "slow_query_log",
        "slow_query_log_file",
        "socket",
        "tmpdir",
    }
)
_LOCKS_OUT = frozenset(
    {
        "admin_address",
        "admin_port",
        "authentication_policy",
        "bind_address",
        "connect_timeout",
        "default_authentication_plugin",
        "extra_max_connections",
        "extra_port",
        "interactive_timeout",
        "max_connect_errors",
        "max_password_errors",
        "max_user_connections",
        "offline_mode",
        "old_passwords",
        "port",
        "proxy_protocol_networks",
        "read_only",
        "require_secure_transport",
        "secure_auth",
        "skip_grant_tables",
        "skip_name_resolve",
        "skip_networking",
        "super_read_only",
        "wait_timeout",
    }
)
_DAMAGES = frozenset(
    {
        "innodb_checksum_algorithm",
        "innodb_encrypt_log",
        "innodb_encrypt_tables",
        "innodb_fast_shutdown",
        "innodb_force_load_corrupted",
        "innodb_force_recovery",  # 6: the server starts and reads work, so that a benchmark of reads looks fine
        "innodb_log_checksums",
        "innodb_read_only",
        "myisam_recover_options",
    }
)
_FIXED = frozenset(
    {
        "innodb_page_size",
        "innodb_undo_tablespaces",
        "lower_case_table_names",  # MariaDB 10.11 starts, and tables with capitals vanish
        "server_uuid",
        "version",
    }
)

_FORBIDDEN = Forbidden(
    runs_code=_RUNS_CODE,
    writes_files=_WRITES_FILES,
    locks_out=_LOCKS_OUT,
    damages=_DAMAGES,
    fixed=_FIXED,
    made="the data directory is made",
)
FORBIDDEN: frozenset[str] = _FORBIDDEN.names

SECRET: frozenset[str] = frozenset({"report_password", "wsrep_sst_auth"})
"""Values that may hold a password: never shown, never kept."""

_BY_CLASS: dict[SafetyClass, frozenset[str]] = {
    SafetyClass.DURABILITY: frozenset(
        {
            "innodb_doublewrite",
            "innodb_flush_log_at_timeout",
            "innodb_flush_log_at_trx_commit",
            "innodb_use_atomic_writes",
            "master_info_repository",
            "relay_log_info_repository",
            "sync_binlog",
            "sync_frm",
            "sync_master_info",
            "sync_relay_log",
            "sync_relay_log_info",
            "sync_source_info",
        }
    ),
    SafetyClass.DATA_LOSS: frozenset(
        {
            "binlog_expire_logs_seconds",
            "default_storage_engine",
            "expire_logs_days",
            "relay_log_purge",
            "storage_engine",
        }
    ),
    SafetyClass.SECURITY: frozenset(
        {"default_password_lifetime", "strict_password_validation", "tls_version", "check_proxy_users"}
    ),
    SafetyClass.SEMANTICS: frozenset(
        {
            "autocommit",
            "check_constraint_checks",
            "completion_type",  # RELEASE ends the connection at every commit, CHAIN never leaves the transaction
            "div_precision_increment",
            "explicit_defaults_for_timestamp",
            "foreign_key_checks",
            "group_concat_max_len",
            "idle_transaction_timeout",
            "innodb_deadlock_detect",
            "innodb_lock_wait_timeout",
            "innodb_rollback_on_timeout",
            "innodb_snapshot_isolation",
            "innodb_strict_mode",
            "innodb_table_locks",
            "lock_wait_timeout",
            "low_priority_updates",
            "max_allowed_packet",
            "max_connections",
            "max_execution_time",
            "max_join_size",
            "max_sort_length",
            "max_sp_recursion_depth",
            "max_statement_time",
            "net_read_timeout",
            "net_write_timeout",
            "old_mode",
            "sql_auto_is_null",
            "sql_big_selects",
            "sql_mode",
            "sql_safe_updates",
            "sql_select_limit",
            "time_zone",
            "transaction_isolation",
            "transaction_read_only",
            "tx_isolation",
            "tx_read_only",
            "unique_checks",
        }
    ),
    SafetyClass.REPLICATION: frozenset(
        {
            "auto_increment_increment",
            "auto_increment_offset",
            "binlog_checksum",
            "binlog_format",
            "binlog_row_image",
            "gtid_domain_id",
            "gtid_mode",
            "enforce_gtid_consistency",
            "innodb_autoinc_lock_mode",
            "log_bin_trust_function_creators",
            "log_replica_updates",
            "log_slave_updates",
            "replica_parallel_type",
            "replica_skip_errors",
            "rpl_semi_sync_master_enabled",
            "rpl_semi_sync_replica_enabled",
            "rpl_semi_sync_slave_enabled",
            "rpl_semi_sync_source_enabled",
            "server_id",
            "slave_parallel_mode",
            "slave_skip_errors",
        }
    ),
}


def safety_of(name: str) -> SafetyClass:
    """The class of a variable that the catalogue does not know."""
    if name in FORBIDDEN or name.startswith("skip_"):
        return SafetyClass.FORBIDDEN
    return next((kind for kind, names in _BY_CLASS.items() if name in names), SafetyClass.PERFORMANCE)


def forbidden_reason(name: str) -> str:
    """Why Trimtab never sets `name`; "" when it may."""
    if name.startswith("skip_"):
        return "forbidden: can lock users or the tuner out"
    return _FORBIDDEN.reason(name)
