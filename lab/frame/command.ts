import { execFileSync } from 'node:child_process'
import { cpus, loadavg, totalmem } from 'node:os'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { nowIso } from '../../core/base/clock.ts'
import type { Io } from '../../core/base/io.ts'
import { projectRoot, version } from '../../core/base/version.ts'
import { type Command, defineCommand, type OptionsOf } from '../../core/cli/command.ts'
import { flagsText } from '../../core/cli/flags.ts'
import { layOutTable } from '../plot/table.ts'
import type { Bench, BenchDocument } from './bench.ts'
import { goalTable } from './page.ts'
import { commandLineOf, createFolder, readDocument, saveResults } from './results.ts'

const frameShape = (name: string, quickLimit: string) => ({
  quick: z.boolean().default(false).describe(`measure less, within ${quickLimit} on two cores`),
  save: z.boolean().default(false).describe(`write document, figure and page to docs/results/${name}/`),
  out: z.string().min(1).meta({ description: 'folder to write document, figure and page to', fallback: 'none' }).optional(),
  from: z
    .string()
    .min(1)
    .meta({ description: 'saved document to report again, without measuring', fallback: 'none: measure' })
    .optional(),
})

type Given<Options extends z.ZodRawShape> = OptionsOf<ReturnType<typeof frameShape>> & z.output<z.ZodObject<Options>>

/** `brim bench <name>`, or the command line that it names: measures, prints and saves. */
export function benchCommand<Options extends z.ZodRawShape>(bench: Bench<Options>): Command {
  const { name, quickLimit = '60 s', examples, options } = bench
  const line = commandLineOf(bench)
  return defineCommand({
    examples: [
      [`${line} --quick`, `a rougher measurement, within ${quickLimit}`],
      [`${line} --json > ${name}.json`, 'every sample, as one document'],
      ...examples,
    ],
    options: { ...frameShape(name, quickLimit), ...options },
    run: (given, io) => runBench(bench, given as Given<Options>, io),
  })
}

async function runBench<Options extends z.ZodRawShape>(bench: Bench<Options>, given: Given<Options>, io: Io): Promise<void> {
  const { save, out, from, json } = given
  const folders = [
    ...(save ? [fileURLToPath(new URL(`docs/results/${bench.name}/`, projectRoot))] : []),
    ...(out === undefined ? [] : [resolve(out)]),
  ]
  for (const folder of folders) await createFolder(folder)
  const document = from === undefined ? await measure(bench, given, io) : await readDocument(from, bench)
  for (const line of json ? [JSON.stringify(document)] : textOf(bench, document)) io.out(line)
  for (const folder of folders) {
    await saveResults(folder, document, bench.report, bench.goals)
    io.err(`saved to ${folder}`)
  }
}

async function measure<Options extends z.ZodRawShape>(
  bench: Bench<Options>,
  given: Given<Options>,
  io: Io,
): Promise<BenchDocument> {
  const { quick } = given
  const startedMs = performance.now()
  const tookS = () => (performance.now() - startedMs) / 1_000
  const before = { startedAt: nowIso(), loadAverageBefore: loadAverage() }
  const progress = (line: string) => {
    io.signal.throwIfAborted()
    io.err(`${tookS().toFixed(0).padStart(4)} s  ${line}`)
  }
  const { conditions, summary, runs } = await bench.run({ quick, io, progress }, given)
  const after = { loadAverageAfter: loadAverage(), tookS: Math.round(tookS()) }
  const flags = flagsText(z.strictObject(bench.options), given)
  const command = [commandLineOf(bench), ...(quick ? ['--quick'] : []), ...flags].join(' ')
  return { bench: bench.name, conditions: { command, ...machineConditions(), ...before, ...after, ...conditions }, summary, runs }
}

/** Of the last minute. */
const loadAverage = (): number => loadavg()[0] ?? 0

/** The machine and the code that a benchmark runs on. */
function machineConditions(): Record<string, unknown> {
  return {
    brim: version,
    commit: currentCommit(),
    node: process.versions.node,
    platform: `${process.platform} ${process.arch}`,
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
  }
}

/** Null where this is no checkout, or git is missing. */
function currentCommit(): string | null {
  try {
    const git = ['rev-parse', '--short', 'HEAD']
    return execFileSync('git', git, { cwd: projectRoot, stdio: ['ignore', 'pipe', 'ignore'], encoding: 'utf8' }).trim()
  } catch {
    return null
  }
}

function textOf(bench: Pick<Bench, 'report' | 'goals'>, document: BenchDocument): string[] {
  const tables = bench.report.tables?.(document) ?? []
  const { head, rows } = goalTable(document.summary, bench.goals)
  return [...tables.flatMap((table) => [table.title, '', ...layOutTable(table.head, table.rows), '']), ...layOutTable(head, rows)]
}
