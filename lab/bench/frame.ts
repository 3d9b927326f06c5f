import { execFileSync } from 'node:child_process'
import { access, constants, mkdir, stat, writeFile } from 'node:fs/promises'
import { cpus, loadavg, totalmem } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { nowIso } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { projectRoot, version } from '../../core/base/version.ts'
import { type Command, defineCommand, type Example } from '../../core/cli/command.ts'
import { flagsText } from '../../core/cli/flags.ts'
import { layOutTable } from '../plot/table.ts'

/** What every benchmark prints with --json. */
export interface BenchDocument {
  readonly bench: string
  readonly conditions: Readonly<Record<string, unknown>>
  /** Flat: the figures that somebody promised, and their kin; null where there was nothing to measure. */
  readonly summary: Readonly<Record<string, number | null>>
  /** Every sample. */
  readonly runs: readonly object[]
}

export interface BenchContext {
  /** Ends soon, on two cores: see Bench.quickEnds. */
  readonly quick: boolean
  readonly io: Io
  /** One line on stderr; fails once the command was interrupted. */
  progress(line: string): void
}

export interface BenchResult {
  /** What the machine does not say by itself: shapes, seeds, threads, versions. */
  readonly conditions: Readonly<Record<string, unknown>>
  readonly summary: BenchDocument['summary']
  readonly runs: readonly object[]
}

/** @typeParam Shape its options beside those that every benchmark has */
export interface Bench<Shape extends z.ZodRawShape = z.ZodRawShape> {
  readonly name: string
  /** How long --quick takes on two cores; absent: 'within 60 s'. */
  readonly quickEnds?: string
  readonly examples?: readonly Example[]
  readonly options: Shape
  /** What the figures of the summary should reach. */
  readonly reach: Readonly<Record<string, { readonly atLeast: number } | { readonly atMost: number }>>
  run(context: BenchContext, options: z.output<z.ZodObject<Shape>>): Promise<BenchResult>
  /** Lines that are printed above the figures, without --json. */
  print?(document: BenchDocument): readonly string[]
  /** What --save writes beside the document: a figure and a page. @param goals rows: figure, measured, reach, verdict */
  report(document: BenchDocument, goals: readonly string[][]): { readonly svg: string; readonly markdown: string }
}

/** `brim bench <name>`: runs, prints, saves. */
export function benchCommand<Shape extends z.ZodRawShape>(bench: Bench<Shape>): Command {
  const { name, quickEnds = 'within 60 s' } = bench
  return defineCommand({
    examples: [
      [`brim bench ${name} --quick`, `${quickEnds}, with larger errors`],
      [`brim bench ${name} --json > ${name}.json`, 'every sample, as one document'],
      [`brim bench ${name} --save`, `write document, figure and page to docs/results/${name}/`],
      ...(bench.examples ?? []),
    ],
    options: {
      quick: z.boolean().default(false).describe(`end ${quickEnds} on two cores`),
      save: z.boolean().default(false).describe(`write docs/results/${name}/`),
      out: z.string().describe('folder for document, figure and page').optional(),
      ...bench.options,
    },
    run: (options, io) => execute(bench, options as CommonOptions & z.output<z.ZodObject<Shape>>, io),
  })
}

interface CommonOptions {
  readonly quick: boolean
  readonly save: boolean
  readonly out?: string | undefined
  readonly json: boolean
}

async function execute<Shape extends z.ZodRawShape>(
  bench: Bench<Shape>,
  options: CommonOptions & z.output<z.ZodObject<Shape>>,
  io: Io,
): Promise<void> {
  const { quick, save, out, json } = options
  const folders = [
    ...(save ? [fileURLToPath(new URL(`docs/results/${bench.name}/`, projectRoot))] : []),
    ...(out === undefined ? [] : [resolve(out)]),
  ]
  for (const folder of folders) await demandWritable(folder)
  const startedMs = performance.now()
  const before = { startedAt: nowIso(), loadAverageBefore: loadavg()[0] ?? 0 }
  const context: BenchContext = {
    quick,
    io,
    progress(line) {
      io.signal.throwIfAborted()
      io.err(`${((performance.now() - startedMs) / 1000).toFixed(0).padStart(4)} s  ${line}`)
    },
  }
  const { conditions, summary, runs } = await bench.run(context, options)
  const after = { loadAverageAfter: loadavg()[0] ?? 0, tookS: Math.round((performance.now() - startedMs) / 1000) }
  const flags = flagsText(z.strictObject(bench.options), options)
  const command = ['brim bench', bench.name, ...(quick ? ['--quick'] : []), ...flags].join(' ')
  const document = { bench: bench.name, conditions: { command, ...machine(), ...before, ...after, ...conditions }, summary, runs }
  const goals = heldAgainstGoals(bench.reach, summary)
  const lines = () => [...(bench.print?.(document) ?? []), ...layOutTable(['figure', 'measured', 'reach', ''], goals)]
  for (const line of json ? [JSON.stringify(document)] : lines()) io.out(line)
  for (const folder of folders) await saveResults(bench.name, folder, document, bench.report(document, goals), io)
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

type Goals = Bench['reach']

/** The figures beside what they should reach. */
function heldAgainstGoals(reach: Goals, summary: BenchDocument['summary']): string[][] {
  return Object.entries(summary).map(([key, value]) =>
    value === null ? [key, '–', '', ''] : [key, String(Number(value.toPrecision(4))), ...verdict(reach[key], value)],
  )
}

function verdict(goal: Goals[string] | undefined, value: number): [string, string] {
  if (!goal) return ['', '']
  if ('atLeast' in goal) return [`≥ ${goal.atLeast}`, value >= goal.atLeast ? 'reached' : 'missed']
  return [`≤ ${goal.atMost}`, value <= goal.atMost ? 'reached' : 'missed']
}

/** Said before minutes of measuring: the folder, or the nearest one above that is there, can be written. */
async function demandWritable(folder: string): Promise<void> {
  for (let at = folder; ; at = dirname(at)) {
    try {
      await access(at, constants.W_OK)
      if ((await stat(at)).isDirectory()) return
      throw new Error(`${at} is no folder`)
    } catch (cause) {
      if (!(cause instanceof Error && 'code' in cause && cause.code === 'ENOENT')) throw unwritable(folder, cause)
    }
  }
}

const unwritable = (folder: string, cause: unknown) =>
  new BrimError('TARGET_UNWRITABLE', `${folder} cannot be written`, { cause, hint: 'give another folder with --out' })

async function saveResults(
  name: string,
  folder: string,
  document: BenchDocument,
  { svg, markdown }: { readonly svg: string; readonly markdown: string },
  io: Io,
): Promise<void> {
  try {
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, `${name}.json`), `${JSON.stringify(document, null, 1)}\n`)
    await writeFile(join(folder, `${name}.svg`), svg)
    await writeFile(join(folder, `${name}.md`), markdown)
  } catch (cause) {
    throw unwritable(folder, cause)
  }
  io.err(`saved to ${folder}`)
}
