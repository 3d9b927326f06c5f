import { RecordFile, type RecordTarget } from '../results/record-file.ts'
import type { Scenario } from '../scenario/scenario.ts'
import type { ScenarioResult } from './result.ts'
import { type RunScenarioOptions, runScenario } from './run-scenario.ts'

/** A run with a line in a file for each answer. @throws BrimError as runScenario; TARGET_UNWRITABLE */
export async function runRecorded(
  scenario: Scenario,
  records: RecordTarget | undefined,
  options: Omit<RunScenarioOptions, 'onRecord'>,
): Promise<ScenarioResult> {
  if (!records) return runScenario(scenario, options)
  const file = new RecordFile(records)
  try {
    return await runScenario(scenario, { ...options, onRecord: (record) => file.write(record) })
  } finally {
    file.close()
  }
}
