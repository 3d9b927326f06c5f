import { benchCommand } from '../../frame/command.ts'
import { loadText, machineText } from '../../frame/page.ts'
import { type Bar, barPanel } from '../../frame/panels.ts'
import { type FigureRow, tabledBench } from '../../frame/tabled-bench.ts'
import { tableOf, toDigits, toPercent } from '../../frame/tables.ts'
import { heldOutPrompts } from '../prompts.ts'
import { findingsOf } from './findings.ts'
import type { FoundPrompts } from './frame-traces.ts'
import type { FramesRun } from './frames-runs.ts'
import { type AttackRun, fullPlan, measurePrivacy, type PrivacyPlan, type PrivacyRun, quickPlan } from './measure.ts'
import { attacksOf, framesOf, plain, recoveredAt, undoes } from './runs.ts'

const recovered = (key: Parameters<typeof recoveredAt>[1]): FigureRow<PrivacyRun>[0] => {
  return (runs) => recoveredAt(runs, key)
}

/** A defence that changes hardly any token. */
const maxChangedTokens = 0.001
/** A defence whose cost a user might bear, over the perplexity of plain states. */
const maxPerplexityRatio = 2

/** Of the way of sending that hides most, among those that cost as little. An attacker may undo it: then what is left counts. */
function hidden(runs: readonly PrivacyRun[], kept: (run: AttackRun) => boolean): number | null {
  const attacks = attacksOf(runs).filter(
    ({ model, split, text }) => model === plain.model && split === plain.split && text === plain.text,
  )
  const sendings = [...new Set(attacks.filter(kept).map(({ sending }) => sending.replace(/ undone.*/, '')))]
  const shares = sendings.map((sending) =>
    Math.max(...attacks.filter((run) => run.sending === sending || undoes(run, sending)).map(({ top1 }) => top1)),
  )
  return shares.length > 0 ? Math.min(...shares) : null
}
const paced: FigureRow<PrivacyRun>[0] = (runs) =>
  framesOf(runs).find(({ intervalMs }) => intervalMs !== undefined)?.tbtOverPlain ?? null
const promptFound =
  (isPaced: boolean, by: keyof FramesRun['observed']): FigureRow<PrivacyRun>[0] =>
  (runs) => {
    const frames = framesOf(runs).filter(({ padding, intervalMs }) => padding && (intervalMs !== undefined) === isPaced)
    return frames[0]?.observed[by]?.mean ?? null
  }

export const privacyBench = tabledBench<PrivacyRun>({
  name: 'privacy',
  title: 'What a bridge can read',
  contents: 'every attack on every way of sending',
  figureText: 'Tokens recovered by attack, depth and defence',
  quickLimit: '20 minutes',
  isTimeless: true,
  figures: {
    recoveredTop1Split1: [recovered({})],
    recoveredTop1Split2: [recovered({ split: 2 })],
    recoveredAnswer: [recovered({ text: 'answer' })],
    recoveredTop1Int8: [recovered({ sending: 'int8' })],
    recoveredTop1Llama: [recovered({ model: 'llama-random', split: 2 })],
    recoveredTop1Qwen2: [recovered({ model: 'qwen2-random', split: 2 })],
    recoveredTop1WithoutWeights: [(runs) => attacksOf(runs, plain).find(({ attack }) => attack === 'trained')?.top1 ?? null],
    recoveredTop1Defended: [(runs) => hidden(runs, (run) => 1 - run.sameTokens <= maxChangedTokens), { max: 0.05 }],
    recoveredTop1Noise: [
      (runs) => hidden(runs, (run) => run.sending.startsWith('noise') && run.perplexityRatio <= maxPerplexityRatio),
    ],
    recoveredTop1Learned: [
      (runs) => hidden(runs, (run) => run.sending.startsWith('cut') && run.perplexityRatio <= maxPerplexityRatio),
    ],
    promptFoundByFrames: [promptFound(false, 'all')],
    promptFoundByPacedFrames: [promptFound(true, 'all')],
    promptFoundByRounds: [promptFound(false, 'rounds')],
    promptFoundByPacedRounds: [promptFound(true, 'rounds')],
    tbtPacedOverPlain: [paced, { max: 1.05 }],
  },
  measure: (context) => privacyRuns(context.quick ? quickPlan : fullPlan, context),
  show(document) {
    const { runs } = document
    const attacks = attacksOf(runs)
    const prompts = attacks.filter(({ text }) => text === 'prompt')
    const demo = prompts.filter(({ model }) => model === 'demo')
    const curve = demo.filter(
      ({ split, sending, attack }) => split === 1 && /^(noise|cut|fp16)/.test(sending) && attack === 'search',
    )
    const bars = (some: readonly AttackRun[], group: (run: AttackRun) => string) =>
      some.map((run): Bar => [group(run), run.attack, run.top1])
    return {
      figure: {
        title: 'Tokens of prompts that a bridge recovers',
        subtitle: 'share of the tokens that are the first guess',
        columns: 1,
        panels: [
          barPanel(
            'By the depth of the split',
            'share',
            bars(
              demo.filter(({ sending }) => sending === 'fp16'),
              ({ split, layers }) => `${split} of ${layers} layers`,
            ),
            1,
          ),
          barPanel(
            'By what hides the states, 1 layer',
            'share',
            bars(
              demo.filter(({ split, sending }) => split === 1 && !sending.startsWith('rotation undone')),
              ({ sending }) => sending,
            ),
            1,
          ),
        ],
      },
      tables: [
        ...(curve.length > 0 ? [curveTable(curve)] : []),
        tableOf('Attacks', attacks, [
          ['model', ({ model }) => model],
          ['layers', ({ split, layers }) => `${split} of ${layers}`],
          ['sent as', ({ sending }) => sending],
          ['attack', ({ attack }) => attack],
          ['on', ({ text }) => text],
          ['tokens found', ({ top1 }) => toPercent(top1)],
          ['95 %', ({ top1Low, top1High }) => `${toPercent(top1Low)} to ${toPercent(top1High)}`],
          ['in the first ten', ({ top10 }) => toPercent(top10)],
          ['ROUGE-L', ({ rougeL }) => toDigits(rougeL, 2)],
          ['names, numbers', ({ entities }) => (entities === null ? '–' : toPercent(entities))],
          ['of tokens', ({ tokens }) => String(tokens)],
          ['s', ({ seconds }) => toDigits(seconds, 1)],
          ['perplexity', ({ perplexityRatio }) => toDigits(perplexityRatio, 2)],
          ['same tokens', ({ sameTokens }) => toPercent(sameTokens, 1)],
        ]),
        tableOf('Recorded frames', framesOf(runs), [
          ['sent as', formText],
          ['bridge finds: prompts', ({ promptTop1 }) => toPercent(promptTop1)],
          ['answers', ({ answerTop1 }) => toPercent(answerTop1)],
          ['tokens a round', ({ acceptLength }) => toDigits(acceptLength, 2)],
          ['TBT', ({ tbtOverPlain }) => `× ${toDigits(tbtOverPlain, 2)}`],
          ['bytes up', ({ bytesOverPlain }) => `× ${toDigits(bytesOverPlain, 2)}`],
          ['same answers', ({ sameAnswers }) => toPercent(sameAnswers)],
        ]),
        tableOf('Prompts that an observer of the link tells apart', framesOf(runs), [
          ['sent as', formText],
          ['by all', ({ observed }) => intervalText(observed.all)],
          ['by the prompt’s frames', ({ observed }) => intervalText(observed.prompt)],
          ['by the answer’s length', ({ observed }) => intervalText(observed.length)],
          ['by chance', ({ observed }) => toPercent(observed.all.chance)],
          ['by its rounds', ({ observed }) => intervalText(observed.rounds)],
          ['by chance', ({ observed }) => toPercent(observed.rounds?.chance)],
          ['answers', ({ answers }) => String(answers)],
        ]),
      ],
      findings: findingsOf(runs),
      conditions: `${machineText(document)}; ${loadText(document)}.

- *nearest*: the token whose state after the template's first token is the nearest. *search*: the attacker computes the state of each
  candidate after the tokens found so far. Both have the weights of the device's part, which the bridge itself gives to devices.
  *trained*: linear discriminants, learnt from pairs of tokens and states, as from a device of the attacker's own; the texts are of other
  tasks than those attacked. *head*: the model's own head over the states that the bridge computes.
- The first token of a prompt is known; what all prompts begin and end with is not counted. Answers are sampled at temperature 1.
- Intervals are bootstrap intervals over the texts. ROUGE-L counts words of the original.
- Prompts: ${heldOutPrompts.name}, cut; of the models with random weights, random tokens.
- *noise*: Gaussian, over the root mean square of each row. *rotation*: states times a secret orthogonal matrix, which the bridge's weights
  contain. *undone*: the attacker has the public weights, and finds the matrix by comparing one of them with the bridge's, which
  fine-tuning has changed by the given share of their size.
- *cut-WIDTH-NOISE*: layers at the cut that scripts/train/train_cut.py has trained: a code of so many values, with noise over its root mean
  square; with a third number, against an inverter, too. Attackers know the layers, and learn from their codes. The first position
  has no noise: its token is known.
- *by N rows*: the attacker knows the tokens of N rows, and finds the rotation by least squares.
- *perplexity* and *same tokens*: of the recorded answers, over those with plain states. *tokens a round*: with the demonstration's adapter, of
  the answers that the model then gives.
- Recorded frames: a device and a bridge as processes, with a link of 20 ms and 2 MB/s between them. What the bridge finds is the search by the rows
  that it holds at the end.
- The observer knows when the first token came, and has other answers to the same prompts, sent in the same way; each answer in turn is left out and
  taken for one to the prompt whose answers are the nearest (Gaussian naive Bayes; intervals over the prompts). *by the prompt’s frames*: number,
  bytes and time before the first token. *by the answer’s length*: number, bytes and time after it. *by its rounds*: sizes and gaps of the first six of those frames in each direction, of the
  prompts whose answers all have as many. Every answer has at most the same number of tokens.
- *longest drafts*: with \`--draft-threshold 0\`, so that every draft has the length that the bridge allows.`,
    }
  },
})

export const privacyRuns = async (plan: PrivacyPlan, context: Parameters<typeof measurePrivacy>[1]) => ({
  conditions: { prompts: plan.prompts, training: plan.training, promptTokens: plan.promptTokens },
  runs: await measurePrivacy(plan, context),
})

/** The strongest attack on noise and on learned pairs, beside what they cost. */
const curveTable = (searches: readonly AttackRun[]) =>
  tableOf('What hiding costs', searches, [
    ['sent as', ({ sending }) => sending],
    ['tokens found', ({ top1 }) => toPercent(top1)],
    ['in the first ten', ({ top10 }) => toPercent(top10)],
    ['perplexity', ({ perplexityRatio }) => `× ${toDigits(perplexityRatio, 2)}`],
    ['same tokens', ({ sameTokens }) => toPercent(sameTokens, 1)],
    ['tokens a round', ({ acceptLength }) => (acceptLength === null ? '–' : toDigits(acceptLength, 2))],
  ])

const formText = ({ wire, padding, intervalMs, threshold }: FramesRun) =>
  [
    wire,
    ...(padding ? ['padded'] : []),
    ...(threshold === undefined ? [] : ['longest drafts']),
    ...(intervalMs === undefined ? [] : [`every ${intervalMs} ms`]),
  ].join(', ')

const intervalText = (found: FoundPrompts | null) =>
  found ? `${toPercent(found.mean)} (${toPercent(found.low)} to ${toPercent(found.high)})` : '–'

/** `brim bench privacy` */
export const command = benchCommand(privacyBench)
