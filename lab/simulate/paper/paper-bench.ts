import type { z } from 'zod'
import type { Bench, BenchDocument } from '../../frame/bench.ts'
import type { PaperFile } from './paper-file.ts'
import type { PaperRun } from './quantity.ts'
import { paperReport } from './report.ts'
import type { TextScope } from './text.ts'

/** How much is simulated. */
export interface Effort {
  readonly isQuick: boolean
  readonly seeds: number
  /** Of the requests of each setting. */
  readonly share: number
}

interface Simulated<Options extends z.ZodRawShape> extends Pick<Bench<Options>, 'run' | 'isTimeless' | 'quickRepetitions'> {
  readonly options: Options
  /** The runs of a document, and what the paper's code makes of them. */
  runsOf(document: BenchDocument): readonly PaperRun[]
  /** What the page's texts may name beside the file's own values, conditions and summary. */
  more?(document: BenchDocument): TextScope
}

/** `brim simulate paper <name>` */
export const paperBench = <Options extends z.ZodRawShape>(
  name: string,
  paper: PaperFile,
  { runsOf, more, ...rest }: Simulated<Options>,
): Bench<Options> => ({
  name: `paper-${name}`,
  commandLine: `brim simulate paper ${name}`,
  quickLimit: '2 minutes',
  examples: [],
  goals: paper.goals,
  report: paperReport(paper, runsOf, more),
  ...rest,
})
