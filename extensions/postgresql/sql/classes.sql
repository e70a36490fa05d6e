-- Modes, what is learnt of a class, and what can be done with that. What statements take is a test's, not the clock's.
SET client_min_messages = warning;
CREATE TABLE t AS SELECT g, g % 100 AS k, (g * 7919) % 10007 AS r FROM generate_series(1, 10000) g;
ANALYZE t;
SELECT trimtab_reset();
SET trimtab.min_duration = '0.01ms';
SET trimtab.test_cost = 'base=100;work_mem=65536:0.5';
\set query 'SELECT k, count(*), max(r) FROM t GROUP BY k ORDER BY 3, 1'

SET trimtab.mode = 'off';
\o /dev/null
\set ECHO none
SELECT :'query' FROM generate_series(1, 10) \gexec
\set ECHO all
\o
SELECT count(*) AS classes FROM trimtab_sections;

SET trimtab.mode = 'observe';
\o /dev/null
\set ECHO none
SELECT :'query' FROM generate_series(1, 23) \gexec
\set ECHO all
\o
SELECT phase, left_alone, calls, probes, round(own_ms::numeric, 3) AS own_ms, settings, gain, loss_ms FROM trimtab_sections WHERE calls = 20;
EXPLAIN (COSTS OFF) :query;

SET trimtab.mode = 'tune';
\o /dev/null
\set ECHO none
SELECT :'query' FROM generate_series(1, 120) \gexec
\set ECHO all
\o
SELECT query_id FROM trimtab_sections ORDER BY calls DESC LIMIT 1 \gset
SELECT left_alone, probes > 0 AS probed, settings, gain_low > 1.5 AND gain_high < 2.5 AS "twice as fast", loss_ms <= 0.05 * total_ms AS "within budget"
FROM trimtab_sections WHERE query_id = :query_id;
SELECT DISTINCT event FROM trimtab_history WHERE query_id = :query_id AND event IN ('probe', 'faster') ORDER BY 1;
SHOW work_mem;
SELECT memory_kb FROM trimtab_status();

-- Pinned
SELECT trimtab_pin(:query_id, 'work_mem=16MB, jit=off');
EXPLAIN (COSTS OFF) :query;
SELECT c->'settings' AS settings, c->>'phase' AS phase FROM json_array_elements(trimtab_export()->'classes') c WHERE c->>'query_id' = :'query_id';
SELECT trimtab_pin(:query_id, 'work_mem=17MB');
SELECT trimtab_pin(:query_id, 'fsync=off');
SELECT trimtab_pin(0, '');

-- Left alone
\set first 'SELECT g FROM t WHERE k = 3 LIMIT 5'
\set volatile 'SELECT random() FROM t WHERE k = 3'
\set writes 'DELETE FROM t WHERE g = 0'
\o /dev/null
\set ECHO none
SELECT :'first', :'volatile', :'writes' FROM generate_series(1, 8) \gexec
\set ECHO all
\o
EXPLAIN (COSTS OFF) :first;
EXPLAIN (COSTS OFF) :volatile;
EXPLAIN (COSTS OFF) :writes;
SELECT left_alone, calls, settings FROM trimtab_sections WHERE left_alone <> '' ORDER BY left_alone COLLATE "C";

-- Forgotten
SELECT trimtab_forget(:query_id);
SELECT count(*) AS known FROM trimtab_sections WHERE query_id = :query_id;
SELECT trimtab_save();
SELECT trimtab_reset();
SELECT count(*) AS classes FROM trimtab_sections;
DROP TABLE t;
DROP EXTENSION trimtab;
SELECT count(*) AS left_over FROM pg_proc WHERE proname LIKE 'trimtab%';
