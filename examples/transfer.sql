-- Moves money from one account to another of the same branch; a pgbench script as it is.
\set branch random(1, :scale)
\set from (:branch - 1) * 100000 + random_zipfian(1, 100000, 1.1)
\set to (:branch - 1) * 100000 + random(1, 100000)
\set delta random(1, 500)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance - :delta WHERE aid = :from;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :to;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, :branch, :from, :delta, CURRENT_TIMESTAMP);
END;
