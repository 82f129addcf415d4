-- Audit log: the number of anomalies, each time it changed.
--
-- An anomaly is a departure more than five hours late; up to ten of them are ignored.
-- Begins from the table `flights` (python -m examples.load). Everything it makes is in the
-- schema `audit`; each run drops it first.

DROP SCHEMA IF EXISTS audit CASCADE;
CREATE SCHEMA audit;
USE audit;

CREATE VIEW departures AS
SELECT month, day, carrier, flight, origin, dest, dep_delay
FROM default.flights
WHERE dep_time IS NOT NULL;

CREATE TABLE feed (
    month INT, day INT, carrier TEXT, flight INT, origin TEXT, dest TEXT, dep_delay INT
);

CREATE MATERIALIZED VIEW anomalies AS
SELECT count(*) AS count FROM feed WHERE dep_delay > 300 HAVING count(*) > 10;

-- Follows the view: runs at every T at which the view has a new row, and at no other. Rows of
-- the log are never changed, and now() is the T of the change.
CREATE CONTINUAL TASK audit_log (at TIMESTAMP, count INT8) ON INPUT anomalies AS (
    INSERT INTO audit_log SELECT now(), count FROM anomalies;
);

-- The first two weeks of January, day by day.
INSERT INTO feed SELECT * FROM departures WHERE month = 1 AND day = 1;
INSERT INTO feed SELECT * FROM departures WHERE month = 1 AND day = 2;
INSERT INTO feed SELECT * FROM departures WHERE month = 1 AND day = 3;
INSERT INTO feed SELECT * FROM departures WHERE month = 1 AND day = 4;
INSERT INTO feed SELECT * FROM departures WHERE month = 1 AND day = 5;
INSERT INTO feed SELECT * FROM departures WHERE month = 1 AND day = 6;
INSERT INTO feed SELECT * FROM departures WHERE month = 1 AND day = 7;
INSERT INTO feed SELECT * FROM departures WHERE month = 1 AND day = 8;
INSERT INTO feed SELECT * FROM departures WHERE month = 1 AND day = 9;

-- Eight anomalies so far: the view is empty, and so is the log.
SELECT * FROM audit_log;

INSERT INTO feed SELECT * FROM departures WHERE month = 1 AND day = 10;
INSERT INTO feed SELECT * FROM departures WHERE month = 1 AND day = 11;
INSERT INTO feed SELECT * FROM departures WHERE month = 1 AND day = 12;
INSERT INTO feed SELECT * FROM departures WHERE month = 1 AND day = 13;
INSERT INTO feed SELECT * FROM departures WHERE month = 1 AND day = 14;

-- 12 January had no anomaly: the count did not change, so the log has no row for it.
SELECT count FROM audit_log ORDER BY at;
SELECT * FROM anomalies;
