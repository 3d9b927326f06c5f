import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { z } from 'zod'
import { projectRoot } from '../../../core/kit/base/version.ts'
import type { Bench, BenchContext, BenchResult } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { goalsOf, type SummaryFigures, summaryOf } from '../../frame/figures.ts'
import { textOption } from '../../frame/options.ts'
import { readDocument, savedDocument } from '../../frame/results.ts'
import { select } from '../../frame/runs.ts'
import { medianOrNull } from '../../frame/statistics.ts'
import { fitHardware } from '../../simulate/calibrate/fit-hardware.ts'
import { readMeasurements } from '../../simulate/calibrate/read-measurements.ts'
import { discoReport } from '../disco/report.ts'
import { hatReport } from '../hat/report.ts'
import { piceReport } from '../pice/report.ts'
import { tokenFlowReport } from '../tokenflow/report.ts'
import { metrics, type ValidatedBench, type ValidationCell, validatedBenches } from './cells.ts'
import { validateDisco } from './disco.ts'
import { validateHat } from './hat.ts'
import { validatePice } from './pice.ts'
import { validationReport } from './report.ts'
import { validateTokenflow } from './tokenflow.ts'

const options = {
  results: textOption('folder with the documents of the live benchmarks, as in hat/hat.json', 'docs/results'),
}

const figureOf = (bench: ValidatedBench, metric: string) =>
  `validationError${capital(bench)}${metric === 'throughput' ? 'Throughput' : capital(metric.toLowerCase()).replace(' p95', 'P95')}`
const capital = (word: string) => word[0]!.toUpperCase() + word.slice(1)

const reports = { tokenflow: tokenFlowReport, hat: hatReport, pice: piceReport, disco: discoReport }

/** The errors of the median run. */
export const validationFigures: SummaryFigures<readonly ValidationCell[]> = Object.fromEntries(
  validatedBenches.flatMap((bench) =>
    metrics.map((metric) => {
      const error = (cells: readonly ValidationCell[]) => medianOrNull(select(cells, { bench, metric }).map((cell) => cell.error))
      return [figureOf(bench, metric), [error, { max: 0.15 }] as const]
    }),
  ),
)

export const validationBench: Bench<typeof options> = {
  name: 'validation',
  commandLine: 'brim simulate validate',
  isTimeless: true,
  options,
  examples: [['brim simulate validate --results my-results', 'documents of this machine, saved with --out']],
  goals: goalsOf(validationFigures),
  run: measure,
  report: validationReport,
}

export const command = benchCommand(validationBench)

async function measure(context: BenchContext, { results }: z.output<z.ZodObject<typeof options>>): Promise<BenchResult> {
  const folder = results ?? fileURLToPath(new URL('docs/results', projectRoot))
  const fileOf = (bench: ValidatedBench) => join(folder, bench, `${bench}.json`)
  const documentOf = async (bench: ValidatedBench) =>
    savedDocument(await readDocument(fileOf(bench), { name: bench }), reports[bench])
  const steps = await readMeasurements(fileOf('hat'), undefined)
  const { hardware, medianError, p95Error } = fitHardware(steps, steps.steps, {
    name: 'this-machine',
    memoryBytes: 2 * 2 ** 30,
    hostBytesPerS: 1e9,
    peerBytesPerS: 1e9,
    gpus: 1,
    source: steps.origin,
  })
  context.progress(`fitted to ${steps.origin}: median error ${(100 * medianError).toFixed(1)} %`)
  const cells: ValidationCell[] = []
  const validate = async (
    bench: ValidatedBench,
    cellsOf: (document: Awaited<ReturnType<typeof documentOf>>) => ValidationCell[],
  ) => {
    const own = cellsOf(await documentOf(bench))
    context.progress(`${bench}: ${own.length} figures predicted`)
    cells.push(...own)
  }
  await validate('hat', (document) => validateHat(document, hardware))
  await validate('tokenflow', (document) => validateTokenflow(document, hardware))
  await validate('pice', validatePice)
  await validate('disco', validateDisco)
  return { conditions: { hardware, fit: { medianError, p95Error } }, summary: summaryOf(validationFigures, cells), runs: cells }
}
