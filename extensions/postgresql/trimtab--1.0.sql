-- Views and functions of trimtab 1.0. The hooks work without them; see docs/how-to/tune-inside-postgresql.md.
CREATE FUNCTION trimtab_sections(
    OUT id bigint, OUT query_id bigint, OUT database oid, OUT role oid, OUT size_class integer, OUT phase text,
    OUT left_alone text, OUT calls bigint, OUT probes bigint, OUT own_ms double precision, OUT settings text,
    OUT gain double precision, OUT gain_low double precision, OUT gain_high double precision, OUT total_ms double precision,
    OUT loss_ms double precision, OUT gained_ms double precision, OUT headroom_ms double precision, OUT last_at timestamptz,
    OUT plans_compared integer, OUT same_plan integer, OUT planning_ms double precision
) RETURNS SETOF record AS 'MODULE_PATHNAME', 'trimtab_sections' LANGUAGE C STRICT VOLATILE;
CREATE VIEW trimtab_sections AS SELECT * FROM trimtab_sections();

CREATE FUNCTION trimtab_history(
    OUT at timestamptz, OUT query_id bigint, OUT event text, OUT settings text, OUT time_ms double precision, OUT own_ms double precision
) RETURNS SETOF record AS 'MODULE_PATHNAME', 'trimtab_history' LANGUAGE C STRICT VOLATILE;
CREATE VIEW trimtab_history AS SELECT * FROM trimtab_history();

-- Of this session's own statements.
CREATE FUNCTION trimtab_inside_list(
    OUT query_id bigint, OUT sections bigint, OUT probes bigint, OUT settings text, OUT gain double precision,
    OUT gain_low double precision, OUT gain_high double precision, OUT total_ms double precision, OUT loss_ms double precision
) RETURNS SETOF record AS 'MODULE_PATHNAME', 'trimtab_inside_list' LANGUAGE C STRICT VOLATILE;
CREATE VIEW trimtab_inside AS SELECT * FROM trimtab_inside_list();

CREATE FUNCTION trimtab_parameter_list(OUT name text, OUT own text, OUT "values" text)
RETURNS SETOF record AS 'MODULE_PATHNAME', 'trimtab_parameter_list' LANGUAGE C STRICT VOLATILE;
CREATE VIEW trimtab_parameters AS SELECT * FROM trimtab_parameter_list();

CREATE FUNCTION trimtab_status(
    OUT version text, OUT knowledge_in text, OUT file_problem text, OUT classes integer, OUT memory_kb bigint,
    OUT total_ms double precision, OUT loss_ms double precision, OUT gained_ms double precision
) RETURNS record AS 'MODULE_PATHNAME', 'trimtab_status' LANGUAGE C STRICT VOLATILE;

CREATE FUNCTION trimtab_export() RETURNS json AS 'MODULE_PATHNAME', 'trimtab_export' LANGUAGE C STRICT VOLATILE;
CREATE FUNCTION trimtab_reset() RETURNS void AS 'MODULE_PATHNAME', 'trimtab_reset' LANGUAGE C STRICT VOLATILE;
CREATE FUNCTION trimtab_forget(query_id bigint) RETURNS integer AS 'MODULE_PATHNAME', 'trimtab_forget' LANGUAGE C STRICT VOLATILE;
CREATE FUNCTION trimtab_pin(query_id bigint, settings text) RETURNS integer AS 'MODULE_PATHNAME', 'trimtab_pin' LANGUAGE C STRICT VOLATILE;
CREATE FUNCTION trimtab_save() RETURNS boolean AS 'MODULE_PATHNAME', 'trimtab_save_now' LANGUAGE C STRICT VOLATILE;

-- What statements take is for those who may see statistics; changes are the superuser's.
REVOKE ALL ON FUNCTION trimtab_sections(), trimtab_history(), trimtab_export(), trimtab_status(), trimtab_reset(),
    trimtab_forget(bigint), trimtab_pin(bigint, text), trimtab_save() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION trimtab_sections(), trimtab_history(), trimtab_export(), trimtab_status() TO pg_read_all_stats;
GRANT SELECT ON trimtab_sections, trimtab_history TO pg_read_all_stats;
GRANT SELECT ON trimtab_parameters, trimtab_inside TO PUBLIC;
