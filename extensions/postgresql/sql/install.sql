-- What CREATE EXTENSION brings, and who may use it.
CREATE EXTENSION trimtab;
SELECT c.relname AS view, a.attname AS "column", format_type(a.atttypid, a.atttypmod) AS type
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relkind = 'v' AND c.relname LIKE 'trimtab%' AND a.attnum > 0 ORDER BY c.relname, a.attnum;
SELECT proname AS function, pronargs AS arguments,
    has_function_privilege('pg_read_all_stats', oid, 'EXECUTE') AS "with statistics", has_function_privilege('public', oid, 'EXECUTE') AS everybody
FROM pg_proc WHERE proname LIKE 'trimtab%' ORDER BY 1;
SELECT version, knowledge_in, file_problem, classes, memory_kb FROM trimtab_status();
SELECT name FROM trimtab_parameters;
SELECT name, setting, unit, context FROM pg_settings WHERE name LIKE 'trimtab.%' AND name NOT IN ('trimtab.mode', 'trimtab.file') ORDER BY 1;
