import { execFileSync } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { cpus, loadavg, totalmem } from 'node:os'
import { fileURLToPath } from 'node:url'
import type { CommandModule } from 'yargs'
import { nowIso } from '../core/base/clock.ts'
import { BrimError } from '../core/base/errors.ts'
import type { Io } from '../core/base/io.ts'
import { projectRoot, version } from '../core/base/version.ts'
import { layOutTable } from './table.ts'

/** What every benchmark prints with --json. */
export interface BenchDocument {
  readonly bench: string
  readonly conditions: Readonly<Record<string, unknown>>
  /** Flat: the figures that somebody promised, and their kin. */
  readonly summary: Readonly<Record<string, number>>
  /** Every sample. */
  readonly runs: readonly object[]
}

export interface BenchContext {
  /** Ends within 60 s on two cores. */
  readonly quick: boolean
  readonly io: Io
  /** One line on stderr; fails once the command was interrupted. */
  progress(line: string): void
}

export interface BenchResult {
  /** What the machine does not say by itself: shapes, seeds, threads, versions. */
  readonly conditions: Readonly<Record<string, unknown>>
  readonly summary: Readonly<Record<string, number>>
  readonly runs: readonly object[]
}

export interface Bench {
  readonly name: string
  readonly describe: string
  /** What the figures of the summary should reach. */
  readonly reach: Readonly<Record<string, { readonly atLeast: number } | { readonly atMost: number }>>
  run(context: BenchContext): Promise<BenchResult>
  /** What --save writes beside the document: a figure and a page. @param goals rows: figure, measured, reach, verdict */
  report(document: BenchDocument, goals: readonly string[][]): { readonly svg: string; readonly markdown: string }
}

interface BenchOptions {
  quick: boolean
  save: boolean
  json?: boolean | undefined
}

/** `brim bench <name>`: runs, prints, saves. */
export function commandOf(bench: Bench, io: Io): CommandModule<object, BenchOptions> {
  const { name } = bench
  return {
    command: name,
    describe: bench.describe,
    builder: (yargs) =>
      yargs
        .usage(`Usage: brim bench ${name} [options]`)
        .example(`brim bench ${name} --quick`, 'within a minute, rougher')
        .example(`brim bench ${name} --json > ${name}.json`, 'every sample, as one document')
        .example(`brim bench ${name} --save`, `write document, figure and page to docs/results/${name}/`)
        .option('quick', { type: 'boolean', default: false, describe: 'end within 60 s on two cores' })
        .option('save', { type: 'boolean', default: false, describe: `write docs/results/${name}/` }),
    handler: (options) => execute(bench, options, io),
  }
}

async function execute(bench: Bench, { quick, save, json }: BenchOptions, io: Io): Promise<void> {
  const startedMs = performance.now()
  const before = { startedAt: nowIso(), loadAverageBefore: loadavg()[0] ?? 0 }
  const { conditions, summary, runs } = await bench.run({
    quick,
    io,
    progress(line) {
      io.signal.throwIfAborted()
      io.err(`${((performance.now() - startedMs) / 1000).toFixed(0).padStart(4)} s  ${line}`)
    },
  })
  const after = { loadAverageAfter: loadavg()[0] ?? 0, tookS: Math.round((performance.now() - startedMs) / 1000) }
  const command = `brim bench ${bench.name}${quick ? ' --quick' : ''}`
  const document = { bench: bench.name, conditions: { command, ...machine(), ...before, ...after, ...conditions }, summary, runs }
  if (json) io.out(JSON.stringify(document))
  else for (const line of layOutTable(['figure', 'measured', 'reach', ''], heldAgainstGoals(bench, summary))) io.out(line)
  if (save) await saveResults(bench, document, io)
}

/** The machine and the code, so that a figure can be judged and repeated. */
function machine(): Record<string, unknown> {
  const [cpu] = cpus()
  return {
    brim: version,
    commit: currentCommit(),
    node: process.versions.node,
    platform: `${process.platform} ${process.arch}`,
    cpu: cpu?.model ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
  }
}

function currentCommit(): string | null {
  try {
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: projectRoot, stdio: ['ignore', 'pipe', 'ignore'] })
      .toString()
      .trim()
  } catch {
    return null // not a checkout, or no git here
  }
}

/** The figures beside what they should reach. */
function heldAgainstGoals({ reach }: Bench, summary: BenchDocument['summary']): string[][] {
  return Object.entries(summary).map(([key, value]) => [key, String(Number(value.toPrecision(4))), ...verdict(reach[key], value)])
}

function verdict(goal: Bench['reach'][string] | undefined, value: number): [string, string] {
  if (!goal) return ['', '']
  if ('atLeast' in goal) return [`≥ ${goal.atLeast}`, value >= goal.atLeast ? 'reached' : 'missed']
  return [`≤ ${goal.atMost}`, value <= goal.atMost ? 'reached' : 'missed']
}

async function saveResults(bench: Bench, document: BenchDocument, io: Io): Promise<void> {
  const folder = new URL(`docs/results/${bench.name}/`, projectRoot)
  const { svg, markdown } = bench.report(document, heldAgainstGoals(bench, document.summary))
  try {
    await mkdir(folder, { recursive: true })
    await writeFile(new URL(`${bench.name}.json`, folder), `${JSON.stringify(document, null, 1)}\n`)
    await writeFile(new URL(`${bench.name}.svg`, folder), svg)
    await writeFile(new URL(`${bench.name}.md`, folder), markdown)
  } catch (cause) {
    throw new BrimError('TARGET_UNWRITABLE', `${fileURLToPath(folder)} cannot be written`, {
      cause,
      hint: 'run it in a checkout of your own',
    })
  }
  io.err(`saved to docs/results/${bench.name}/`)
}
