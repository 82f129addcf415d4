-- Stream-table join: each departure with its airline's name at that time.
--
-- The feed is the task's input: its changes drive the task. The airlines are a reference: read
-- whole, as of the same T. If a reference changes, stored rows are not revised. (A materialized
-- view over the same join is revised: see view.sql.)
-- Begins from the tables `flights` and `airlines` (python -m examples.load). Everything it makes
-- is in the schema `joined`; each run drops it first.

DROP SCHEMA IF EXISTS joined CASCADE;
CREATE SCHEMA joined;
USE joined;

CREATE VIEW departures AS
SELECT month, day, carrier, flight, dest FROM default.flights WHERE dep_time IS NOT NULL;

CREATE TABLE feed (month INT, day INT, carrier TEXT, flight INT, dest TEXT);

CREATE TABLE airlines AS SELECT * FROM default.airlines;

CREATE CONTINUAL TASK board (month INT, day INT, airline TEXT, flight INT, dest TEXT)
ON INPUT feed AS (
    INSERT INTO board
    SELECT f.month, f.day, a.name, f.flight, f.dest
    FROM feed AS f JOIN airlines AS a ON f.carrier = a.carrier;
);

INSERT INTO feed
SELECT * FROM departures WHERE month = 11 AND carrier IN ('US', 'AA', 'FL');

-- On 9 December 2013 American Airlines and US Airways became one company.
INSERT INTO feed
SELECT * FROM departures WHERE month = 12 AND day < 9 AND carrier IN ('US', 'AA', 'FL');

UPDATE airlines SET name = 'American Airlines Group' WHERE carrier IN ('US', 'AA');

INSERT INTO feed
SELECT * FROM departures WHERE month = 12 AND day >= 9 AND carrier IN ('US', 'AA', 'FL');

-- The output has both names, each for the days on which it was in use.
SELECT
    airline,
    count(*) AS departures,
    min(make_date(2013, month, day)) AS first,
    max(make_date(2013, month, day)) AS last
FROM board
GROUP BY airline
ORDER BY airline;
