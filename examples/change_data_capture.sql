-- Change data capture: which airline flies an aircraft, and which ones did, from events that come
-- in the wrong order.
--
-- Begins from the table `flights` (python -m examples.load). Everything it makes is in the
-- schema `cdc`; each run drops it first.

DROP SCHEMA IF EXISTS cdc CASCADE;
CREATE SCHEMA cdc;
USE cdc;

-- An event says who flew an aircraft when. That it is cancelled stands in for a deletion.
CREATE VIEW departures AS
SELECT
    month, tailnum, carrier, timestampadd(MINUTE, minute, time_hour) AS departs,
    dep_time IS NULL AS cancelled
FROM default.flights
WHERE tailnum IS NOT NULL;

CREATE TABLE events (tailnum TEXT, carrier TEXT, departs TIMESTAMP, cancelled BOOL);

-- SCD type 1: of each aircraft the last event decides.
CREATE FLOW keep_operators AS AUTO CDC INTO operators FROM STREAM(events)
    KEYS (tailnum)
    APPLY AS DELETE WHEN cancelled
    SEQUENCE BY departs
    COLUMNS (tailnum, carrier)
    STORED AS SCD TYPE 1;

-- SCD type 2: a row for each time that one airline flew it.
CREATE FLOW keep_history AS AUTO CDC INTO history FROM STREAM(events)
    KEYS (tailnum)
    APPLY AS DELETE WHEN cancelled
    SEQUENCE BY departs
    COLUMNS (tailnum, carrier)
    STORED AS SCD TYPE 2;

-- Summer first, spring last: what is late finds its place.
INSERT INTO events SELECT tailnum, carrier, departs, cancelled FROM departures WHERE month = 7;
SELECT * FROM history WHERE tailnum = 'N935AT';
INSERT INTO events SELECT tailnum, carrier, departs, cancelled FROM departures WHERE month = 9;
INSERT INTO events SELECT tailnum, carrier, departs, cancelled FROM departures WHERE month = 3;

SELECT count(*) AS aircraft FROM operators;
SELECT count(*) AS versions FROM history;
SELECT * FROM history WHERE tailnum = 'N935AT' ORDER BY __START_AT;

-- A flow is an ordinary task and a view over it.
SHOW CREATE CONTINUAL TASK keep_operators;
