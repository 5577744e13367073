-- Results are only added, at up to thousands a second. By the server's defaults each fifth that a partition grows by has it
-- vacuumed and each tenth analyzed, time and again while it is young, and a farm of short trials is slowed by a third for
-- nothing: there are no dead rows, and the plans for it do not hang on its statistics. Rows of deleted jobs still go by
-- the default rule.
ALTER TABLE trial_result_0 SET (autovacuum_vacuum_insert_threshold = 10000000, autovacuum_analyze_threshold = 10000000);
ALTER TABLE trial_result_1 SET (autovacuum_vacuum_insert_threshold = 10000000, autovacuum_analyze_threshold = 10000000);
ALTER TABLE trial_result_2 SET (autovacuum_vacuum_insert_threshold = 10000000, autovacuum_analyze_threshold = 10000000);
ALTER TABLE trial_result_3 SET (autovacuum_vacuum_insert_threshold = 10000000, autovacuum_analyze_threshold = 10000000);
ALTER TABLE trial_result_4 SET (autovacuum_vacuum_insert_threshold = 10000000, autovacuum_analyze_threshold = 10000000);
ALTER TABLE trial_result_5 SET (autovacuum_vacuum_insert_threshold = 10000000, autovacuum_analyze_threshold = 10000000);
ALTER TABLE trial_result_6 SET (autovacuum_vacuum_insert_threshold = 10000000, autovacuum_analyze_threshold = 10000000);
ALTER TABLE trial_result_7 SET (autovacuum_vacuum_insert_threshold = 10000000, autovacuum_analyze_threshold = 10000000);
