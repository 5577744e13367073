-- Results of other tools are read from their files by the clients; the database keeps none.
DROP TABLE recording_part;
DROP TABLE recording_detail;
DROP TABLE recording;
