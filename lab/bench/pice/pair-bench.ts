import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { nonEmpty } from '../../../core/kit/base/setting-kinds.ts'
import type { BenchContext } from '../../frame/bench.ts'
import { loadText } from '../../frame/page.ts'
import { barPanel } from '../../frame/panels.ts'
import { groupBy, mean, medianOrNull, over, sum } from '../../frame/statistics.ts'
import { tabledBench } from '../../frame/tabled-bench.ts'
import { tableOf, toDigits, toPercent } from '../../frame/tables.ts'
import { defaultDataFolder } from '../../simulate/run/data-folder.ts'
import { askBridge } from './asking.ts'
import { startPiceCluster } from './cluster.ts'
import { bitsPerToken, findServer } from './pair-server.ts'
import type { PiceSample } from './runs.ts'
import { profileDevices } from './setup.ts'

/** A question with both answers. */
export interface PairRun {
  readonly question: string
  readonly category: string
  /** By the LLM alone, and by a sketch of it, or in full where it cannot be one. */
  readonly full: PairAnswer
  readonly sketch: PairAnswer
}

type PairAnswer = Pick<
  PiceSample,
  | 'by'
  | 'reason'
  | 'ttftMs'
  | 'tookMs'
  | 'cloudTokens'
  | 'edgeTokens'
  | 'sketchLines'
  | 'completedSentences'
  | 'formKept'
  | 'error'
> & { readonly text: string; readonly bitsPerToken: number | null }

const options = {
  pair: nonEmpty.optional().meta({
    description: "asks a pair of servers with OpenAI's API by questions of people: URL of the LLM's server",
    fallback: 'the models of this repository',
  }),
  pairSmall: nonEmpty.optional().meta({ description: "with --pair: URL of the small model's server", fallback: 'none' }),
  questions: nonEmpty.optional().meta({
    description: 'with --pair: questions as MT-bench has them, a line of JSON with "category" and "turns" each',
    fallback: 'MT-bench and Vicuna-bench in ../shared/data, beside the checkout',
  }),
}
type PairOptions = z.output<z.ZodObject<typeof options>>

type Runs = readonly PairRun[]

const sketchedOf = (runs: Runs) => runs.filter(({ sketch }) => sketch.by === 'sketch' && sketch.error === null)
/** The median of a time of sketched answers over that of the same questions' full ones. */
const timeOver = (time: 'ttftMs' | 'tookMs') => (runs: Runs) =>
  medianOrNull(sketchedOf(runs).flatMap(({ full, sketch }) => over(sketch[time], full[time]) ?? []))
const bitsOf = (runs: Runs, which: 'full' | 'sketch') => mean(runs.flatMap((run) => run[which].bitsPerToken ?? []))

const answers = (runs: Runs) => runs.flatMap(({ full, sketch }) => [full, sketch])
const cloudTokens = (runs: Runs, which: 'full' | 'sketch') => sum(runs.map((run) => run[which].cloudTokens))

function keptShare(runs: Runs): number | null {
  const told = sketchedOf(runs).filter(({ sketch }) => sketch.formKept !== null)
  return over(told.filter(({ sketch }) => sketch.formKept).length, told.length)
}

/** `brim bench pice --pair` */
export const pairBench = tabledBench<PairRun, typeof options>({
  name: 'pice-pair',
  commandLine: 'brim bench pice',
  title: 'PICE with a pair of servers',
  contents: 'both answers to every question',
  figureText: 'Time of sketched answers over full ones',
  quickLimit: '8 minutes, with servers as fast as a 7B and a 0.5B model on a GPU',
  quickRepetitions: 1,
  options,
  examples: [
    [
      'brim bench pice --pair http://127.0.0.1:8080 --pair-small http://127.0.0.1:8081 --quick',
      'questions of MT-bench and Vicuna-bench, in full and by sketch',
    ],
  ],
  figures: {
    answered: [(runs) => over(answers(runs).filter(({ error }) => error === null).length, answers(runs).length), { min: 1 }],
    sketched: [(runs) => over(sketchedOf(runs).length, runs.length)],
    formKept: [keptShare, { min: 1 }],
    latencyOverFull: [timeOver('tookMs')],
    firstTextOverFull: [timeOver('ttftMs')],
    cloudTokensOverFull: [(runs) => over(cloudTokens(sketchedOf(runs), 'sketch'), cloudTokens(sketchedOf(runs), 'full'))],
    bitsPerToken: [(runs) => bitsOf(sketchedOf(runs), 'sketch')],
    bitsPerTokenFull: [(runs) => bitsOf(sketchedOf(runs), 'full')],
  },
  measure: (context, given) => measurePair(context.quick ? quickEffort : fullEffort, context, given),
  show(document) {
    const { runs, conditions } = document
    const categories = groupBy(runs, ({ category }) => category).map((own) => ({ category: own[0]!.category, own }))
    const { llm, small, devices, answerTokens } = conditions
    return {
      figure: {
        title: 'PICE with a pair of servers',
        subtitle: `${llm} and ${small} on ${devices} devices`,
        columns: 1,
        panels: [
          barPanel(
            'Time of sketched answers over full ones',
            'ratio',
            categories.map(({ category, own }) => [category, 'by sketch', timeOver('tookMs')(own)]),
          ),
        ],
      },
      tables: [
        tableOf('By category: medians of sketched answers over the full ones to the same questions', categories, [
          ['category', ({ category }) => category],
          ['n', ({ own }) => `${own.length}`],
          ['by sketch', ({ own }) => toPercent(over(sketchedOf(own).length, own.length))],
          ['latency', ({ own }) => toDigits(timeOver('tookMs')(own), 2)],
          ['first text', ({ own }) => toDigits(timeOver('ttftMs')(own), 2)],
          ['form kept', ({ own }) => toPercent(keptShare(own))],
          ['sentences', ({ own }) => `${sum(sketchedOf(own).map(({ sketch }) => sketch.sketchLines))}`],
          ['by the LLM', ({ own }) => `${sum(sketchedOf(own).map(({ sketch }) => sketch.completedSentences))}`],
          ['bits per token', ({ own }) => toDigits(bitsOf(sketchedOf(own), 'sketch'), 2)],
          ['of full ones', ({ own }) => toDigits(bitsOf(sketchedOf(own), 'full'), 2)],
        ]),
      ],
      conditions: `${loadText(document)} One bridge with the LLM ${llm} as its upstream, and ${devices} agents that share the server of ${small}.
One question at a time, first in full, then by sketch; answers end after ${answerTokens} tokens at the latest; temperature 0. Bits per token are those
of the LLM's server for the whole answer after the question, without a template; – where it does not tell them.`,
    }
  },
})

interface PairEffort {
  /** Of each file, spread over it; undefined: all. */
  readonly questions?: number
  readonly devices: number
  readonly answerTokens: number
}

const fullEffort: PairEffort = { devices: 3, answerTokens: 1_024 }
const quickEffort: PairEffort = { ...fullEffort, questions: 8, answerTokens: 512 }

export async function measurePair(effort: PairEffort, { io, progress }: BenchContext, given: PairOptions) {
  const { pair, pairSmall, questions: file } = given
  if (pair === undefined || pairSmall === undefined)
    throw new BrimError('USAGE', '--pair and --pair-small belong together', { hint: 'name the URL of each model’s server' })
  const { devices, answerTokens: maxTokens } = effort
  const [llm, small] = await Promise.all([pair, pairSmall].map((url) => findServer(url, io.signal)))
  const sets = ['mt-bench', 'vicuna-bench'].map((set) => join(defaultDataFolder(), set, 'question.jsonl'))
  const questions = await Promise.all((file === undefined ? sets : [file]).map((each) => readQuestions(each, effort.questions)))
  await using cluster = await startPiceCluster({
    smallModels: [],
    devices,
    args: ['--upstream', llm!.url, '--upstream-model', llm!.model],
    deviceArgs: ['--slm-server', small!.url, '--slm-server-model', small!.model],
    io,
  })
  const runs: PairRun[] = []
  await profileDevices(cluster)
  for (const { question, category } of questions.flat()) {
    const answered = async (mode: 'full' | 'sketch'): Promise<PairAnswer> => {
      const messages = [{ role: 'user' as const, content: question }]
      const { text, sample } = await askBridge(cluster.httpUrl, { messages, maxTokens }, { mode, user: mode }, io.signal)
      const { by, reason, ttftMs, tookMs, cloudTokens, edgeTokens, sketchLines, completedSentences, formKept, error } = sample
      const bits = text === '' ? null : await bitsPerToken(llm!, question, text, io.signal)
      const counts = { cloudTokens, edgeTokens, sketchLines, completedSentences }
      return { by, reason, ttftMs, tookMs, ...counts, formKept, error, text, bitsPerToken: bits }
    }
    const full = await answered('full')
    const sketch = await answered('sketch')
    runs.push({ question, category, full, sketch })
    progress(
      `${category}: ${full.tookMs} ms in full, ${sketch.tookMs} ms by ${sketch.by === 'sketch' ? 'sketch' : sketch.reason}`,
    )
  }
  return { conditions: { llm: llm!.model, small: small!.model, devices, answerTokens: maxTokens }, runs }
}

const Question = z.object({ category: z.string().min(1), turns: z.array(z.string().min(1)).min(1) })

/** @param count spread over the file @throws BrimError USAGE */
async function readQuestions(file: string, count?: number) {
  try {
    const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line.trim() !== '')
    const step = Math.max(1, lines.length / (count ?? lines.length))
    const chosen = Array.from({ length: Math.min(count ?? lines.length, lines.length) }, (_, at) => lines[Math.floor(at * step)]!)
    return chosen
      .map((line) => Question.parse(JSON.parse(line)))
      .map(({ category, turns: [question] }) => ({ category, question: question! }))
  } catch (cause) {
    throw new BrimError('USAGE', `${file} has no questions`, {
      cause,
      hint: 'name a file with --questions: a line of JSON with "category" and "turns" for each',
    })
  }
}
