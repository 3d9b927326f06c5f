import type { z } from 'zod'
import type { Io } from '../../core/kit/base/io.ts'
import type { Example } from '../../core/kit/cli/command.ts'
import type { Figure } from '../plot/plot.ts'

/** One run of a benchmark: what --json prints and --save writes. */
export interface BenchDocument {
  readonly bench: string
  /** Machine, code, options and everything else that a reader needs to judge or repeat the figures. */
  readonly conditions: Readonly<Record<string, unknown>>
  readonly summary: Summary
  /** Every sample; of a quick run, those of its first repetition. */
  readonly runs: readonly object[]
  /** All repetitions of a quick run, the first included; `summary` has their medians. */
  readonly repetitions?: readonly Summary[] | undefined
  /** Of a saved document that keeps less than every sample: what its page shows of all. */
  readonly shown?: Shown | undefined
}

/** What a report makes of a document's runs. */
export interface Shown {
  readonly figure: Figure
  readonly tables: readonly Table[]
  readonly findings: string | null
  readonly conditions: string
}

/** Figures by name; null where nothing was measured. */
export type Summary = Readonly<Record<string, number | null>>
/** Limits of figures, by name. */
export type Goals = Readonly<Record<string, { readonly min: number } | { readonly max: number }>>

export interface BenchContext {
  /** Measure less, within the benchmark's `quickLimit` on two cores. */
  readonly quick: boolean
  readonly io: Io
  /** Prints a line on stderr; throws once the command was interrupted. */
  progress(line: string): void
}

/** What a run returns; the frame adds the conditions of the machine. */
export type BenchResult = Pick<BenchDocument, 'conditions' | 'summary' | 'runs'>

export interface Table {
  readonly title: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

/** How a document becomes a page and a figure. */
export interface BenchReport {
  /** Heading of the page. */
  readonly title: string
  /** What the JSON file holds, as the object of a sentence: 'every round of every answer'. */
  readonly contents: string
  figure(document: BenchDocument): Figure
  /** Text in place of the figure. */
  readonly figureText: string
  /** What --save keeps of runs that are too many for the repository: what other commands read of them. Absent: every run. */
  keptRuns?(document: BenchDocument): BenchDocument['runs']
  /** Printed too, without --json. */
  tables?(document: BenchDocument): readonly Table[]
  /** Markdown below the goals: what a reader should take from the figures, shortcomings included. */
  findings?(document: BenchDocument): string | null
  /** Markdown of the section 'Conditions'. */
  conditions(document: BenchDocument): string
}

/** @typeParam Options zod shape of the options that only this benchmark has */
export interface Bench<Options extends z.ZodRawShape = z.ZodRawShape> {
  readonly name: string
  /** What runs it; `brim bench <name>` where absent. */
  readonly commandLine?: string
  /** How long --quick takes on two cores; `60 s` where absent. */
  readonly quickLimit?: string
  /** How often --quick measures; 3 where absent, once if it is timeless. */
  readonly quickRepetitions?: number
  /** Its figures do not depend on the speed of the machine, so that no foreign load disturbs them. */
  readonly isTimeless?: boolean
  readonly options: Options
  readonly examples: readonly Example[]
  readonly goals: Goals
  run(context: BenchContext, options: z.output<z.ZodObject<Options>>): Promise<BenchResult>
  readonly report: BenchReport
}
