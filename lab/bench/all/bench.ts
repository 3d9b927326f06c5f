import { z } from 'zod'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { BrimError, errorCodes, exitCodes } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { defineCommand, type OptionsOf } from '../../../core/kit/cli/command.ts'
import { currentCommit } from '../../frame/commit.ts'
import { despiteLoadOption, namesOption } from '../../frame/options.ts'
import { resultFolder } from '../../frame/results.ts'
import { layOutTable } from '../../plot/table.ts'
import { runBrim } from './bench-process.ts'
import { benchmarks, type ListedBench } from './benchmarks.ts'
import { isSaved } from './saved.ts'

const options = {
  quick: z.boolean().default(false).describe('measure less'),
  save: z.boolean().default(false).describe('write documents, figures and pages to docs/results/'),
  only: namesOption(
    'benchmarks',
    benchmarks.map(({ name }) => name),
  ),
  despiteLoad: despiteLoadOption,
}

/** A disturbed run is repeated this often, after a pause in which what disturbs it may end. */
const maxAttempts = 4
const pauseS = 60

type Outcome = 'saved' | 'measured' | 'saved before' | 'disturbed' | 'failed'

/** `brim bench all` */
export const command = defineCommand({
  examples: [
    ['brim bench all --save', 'every page of docs/results; an interrupted run goes on where it was'],
    ['brim bench all --quick --only hat,tokenflow', 'two benchmarks, rougher'],
  ],
  notes: `With --save, benchmarks that this code has saved already are skipped (changed documents and tests count as the same code), except
those that read the documents of others.
A run that other processes disturb is repeated, at most ${maxAttempts - 1} times; it is never saved.`,
  options,
  run: runAll,
})

async function runAll({ quick, save, only, despiteLoad, json }: OptionsOf<typeof options>, io: Io): Promise<void> {
  const chosen = benchmarks.filter(({ name }) => only?.includes(name) ?? true)
  const flags = [quick && '--quick', save && '--save', despiteLoad && '--despite-load'].filter((flag) => flag !== false)
  const outcomes = new Map<string, Outcome>()
  const commit = currentCommit()
  for (const { name, readsResults } of chosen)
    if (save && !readsResults && (await isSaved(resultFolder(name), name, quick, commit))) outcomes.set(name, 'saved before')
  const due = chosen.filter(({ name }) => !outcomes.has(name))
  for (const [at, bench] of due.entries()) {
    const estimate = `about ${minutes([bench], quick)} of ${minutes(due.slice(at), quick)}`
    io.err(`${at + 1} of ${due.length}: brim ${[...bench.words, ...flags].join(' ')} (${estimate})`)
    const outcome = await repeatUndisturbed([...bench.words, ...flags], json ? io.err : io.out, io)
    outcomes.set(bench.name, outcome === 'measured' && save ? 'saved' : outcome)
  }
  const rows = chosen.map(({ name }) => [name, outcomes.get(name) ?? ''])
  for (const line of json ? [JSON.stringify(Object.fromEntries(rows))] : layOutTable(['benchmark', ''], rows)) io.out(line)
  const missing = rows.filter(([, outcome]) => outcome === 'disturbed' || outcome === 'failed')
  if (missing.length === 0) return
  const list = missing.map(([name, outcome]) => `${name} (${outcome})`).join(', ')
  throw new BrimError('RUNTIME_FAILED', `${missing.length} of ${chosen.length} benchmarks have no figures: ${list}`, {
    hint: save ? 'the same command goes on with them' : `name them with --only`,
  })
}

/** @throws the reason of the interruption */
async function repeatUndisturbed(words: readonly string[], out: (line: string) => void, io: Io): Promise<Outcome> {
  for (let attempt = 1; ; attempt++) {
    const code = await runBrim(words, out, io)
    io.signal.throwIfAborted()
    if (code === exitCodes.ok) return 'measured'
    if (code !== errorCodes.MACHINE_BUSY) return 'failed'
    if (attempt === maxAttempts) return 'disturbed'
    io.err(`disturbed: again in ${pauseS} s`)
    await systemClock.sleep(pauseS * 1_000, io.signal)
  }
}

function minutes(benches: readonly ListedBench[], quick: boolean): string {
  const seconds = benches.reduce((sum, { quickS, fullS }) => sum + (quick ? quickS : fullS), 0)
  return seconds < 90 ? `${seconds} s` : `${Math.round(seconds / 60)} min`
}
