"""Which PostgreSQL knobs are dangerous, in code and not in a list that a user can edit (reference: docs, "Classes").

`FORBIDDEN` can never be set by Trimtab: these run code, write files, lock users or the tuner out, or are fixed when the
cluster is made. The other classes are the catalogue's (`safety = ...`), and this module says which class a knob that
the catalogue does not know falls into, so that a listing is honest.
"""

from __future__ import annotations

from trimtab.space import SafetyClass
from trimtab.systems.forbidden import Forbidden

__all__ = ["FORBIDDEN", "SECRET", "forbidden_reason", "safety_of"]

_RUNS_CODE = frozenset(
    {
        "archive_cleanup_command",
        "archive_command",
        "archive_library",
        "dynamic_library_path",
        "extension_control_path",
        "jit_provider",
        "local_preload_libraries",
        "oauth_validator_libraries",
        "recovery_end_command",
        "restore_command",
        "session_preload_libraries",
        "shared_preload_libraries",
        "ssl_passphrase_command",
        "ssl_passphrase_command_supports_reload",
    }
)
_WRITES_FILES = frozenset(
    {
        "config_file",
        "data_directory",
        "external_pid_file",
        "hba_file",
        "ident_file",
        "krb_server_keyfile",
        "log_destination",
        "log_directory",
        "log_file_mode",
        "log_filename",
        "logging_collector",
        "stats_temp_directory",
        "ssl_ca_file",
        "ssl_cert_file",
        "ssl_crl_dir",
        "ssl_crl_file",
        "ssl_dh_params_file",
        "ssl_key_file",
    }
)
_LOCKS_OUT = frozenset(
    {
        "allow_alter_system",
        "authentication_timeout",
        "bonjour",
        "bonjour_name",
        "default_tablespace",
        "default_table_access_method",
        "exit_on_error",
        "ignore_system_indexes",
        "listen_addresses",
        "max_stack_depth",
        "port",
        "post_auth_delay",
        "pre_auth_delay",
        "reserved_connections",
        "search_path",
        "superuser_reserved_connections",
        "temp_tablespaces",
        "unix_socket_directories",
        "unix_socket_group",
        "unix_socket_permissions",
    }
)
_DAMAGES = frozenset(
    {
        "allow_in_place_tablespaces",
        "allow_system_table_mods",
        "debug_io_direct",
        "ignore_checksum_failure",
        "ignore_invalid_pages",
        "zero_damaged_pages",
    }
)
_FIXED = frozenset(
    {
        "block_size",
        "data_checksums",
        "data_directory_mode",
        "lc_collate",
        "lc_ctype",
        "max_function_args",
        "max_identifier_length",
        "max_index_keys",
        "segment_size",
        "server_encoding",
        "wal_block_size",
        "wal_segment_size",
    }
)

_FORBIDDEN = Forbidden(
    runs_code=_RUNS_CODE,
    writes_files=_WRITES_FILES,
    locks_out=_LOCKS_OUT,
    damages=_DAMAGES,
    fixed=_FIXED,
    made="the cluster is made",
)
FORBIDDEN: frozenset[str] = _FORBIDDEN.names

SECRET: frozenset[str] = frozenset({"primary_conninfo", "ssl_passphrase_command"})
"""Values that may hold a password: never shown, never kept."""

_BY_CLASS: dict[SafetyClass, frozenset[str]] = {
    SafetyClass.DURABILITY: frozenset(
        {"data_sync_retry", "fsync", "full_page_writes", "synchronous_commit", "wal_level", "wal_sync_method"}
    ),
    SafetyClass.DATA_LOSS: frozenset(
        {
            "autovacuum_freeze_max_age",
            "autovacuum_multixact_freeze_max_age",
            "restart_after_crash",
            "vacuum_failsafe_age",
            "vacuum_multixact_failsafe_age",
        }
    ),
    SafetyClass.SECURITY: frozenset(
        {
            "createrole_self_grant",
            "lo_compat_privileges",
            "password_encryption",
            "row_security",
            "scram_iterations",
            "ssl",
        }
    ),
    SafetyClass.SEMANTICS: frozenset(
        {
            "array_nulls",
            "backslash_quote",
            "check_function_bodies",
            "default_transaction_deferrable",
            "default_transaction_isolation",
            "default_transaction_read_only",
            "event_triggers",
            "gin_fuzzy_search_limit",
            "idle_in_transaction_session_timeout",
            "idle_session_timeout",
            "lock_timeout",
            "session_replication_role",
            "standard_conforming_strings",
            "statement_timeout",
            "transaction_timeout",
            "transform_null_equals",
        }
    ),
    SafetyClass.REPLICATION: frozenset(
        {
            "hot_standby",
            "hot_standby_feedback",
            "idle_replication_slot_timeout",
            "max_connections",
            "max_locks_per_transaction",
            "max_prepared_transactions",
            "max_replication_slots",
            "max_slot_wal_keep_size",
            "max_wal_senders",
            "primary_conninfo",
            "primary_slot_name",
            "synchronized_standby_slots",
            "synchronous_standby_names",
            "track_commit_timestamp",
            "wal_keep_size",
        }
    ),
}


def safety_of(name: str) -> SafetyClass:
    """The class of a knob that the catalogue does not know."""
    if name in FORBIDDEN:
        return SafetyClass.FORBIDDEN
    return next((kind for kind, names in _BY_CLASS.items() if name in names), SafetyClass.PERFORMANCE)


def forbidden_reason(name: str) -> str:
    """Why Trimtab never sets `name`; "" when it may."""
    return _FORBIDDEN.reason(name)
