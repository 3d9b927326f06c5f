import { benchCommand } from '../../frame/command.ts'
import { loadText, machineText } from '../../frame/page.ts'
import { type Bar, barPanel } from '../../frame/panels.ts'
import { type FigureRow, tabledBench } from '../../frame/tabled-bench.ts'
import { tableOf, toDigits, toPercent } from '../../frame/tables.ts'
import { heldOutPrompts } from '../prompts.ts'
import { fullPlan, measurePrivacy, type PrivacyPlan, type PrivacyRun, quickPlan } from './measure.ts'

type Key = Pick<PrivacyRun, 'model' | 'split' | 'sending' | 'text'>
const plain: Key = { model: 'demo', split: 1, sending: 'fp16', text: 'prompt' }

const those = (runs: readonly PrivacyRun[], key: Key) =>
  runs.filter((run) => Object.entries(key).every(([name, value]) => run[name as keyof Key] === value))

/** By the attack that recovers most. */
const best = (runs: readonly PrivacyRun[], key: Key): PrivacyRun | undefined =>
  those(runs, key).reduce<PrivacyRun | undefined>((most, run) => (most && most.top1 >= run.top1 ? most : run), undefined)

const recovered = (key: Partial<Key>): FigureRow<PrivacyRun>[0] => {
  return (runs) => best(runs, { ...plain, ...key })?.top1 ?? null
}

/** A defence that changes hardly any token; undefined: there is none. */
const maxChangedTokens = 0.001

/** The defence that hides most and changes no tokens. An attacker may undo it: then what is left counts. */
function defended(runs: readonly PrivacyRun[]): number | null {
  const sendings = [...new Set(runs.filter(({ model, split }) => model === 'demo' && split === 1).map(({ sending }) => sending))]
  const exact = sendings.flatMap((sending) => {
    const run = best(runs, { ...plain, sending })
    return run && 1 - run.sameTokens <= maxChangedTokens && !sending.startsWith('rotation') ? [run.top1] : []
  })
  const undone = runs.filter(({ sending, text }) => sending.startsWith('rotation') && text === 'prompt').map(({ top1 }) => top1)
  return Math.min(...exact, undone.length > 0 ? Math.max(...undone) : 1)
}

export const privacyBench = tabledBench<PrivacyRun>({
  name: 'privacy',
  title: 'What a bridge can read',
  contents: 'every attack on every way of sending',
  figureText: 'Tokens recovered by attack, depth and defence',
  isTimeless: true,
  figures: {
    recoveredTop1Split1: [recovered({})],
    recoveredTop1Split2: [recovered({ split: 2 })],
    recoveredAnswer: [recovered({ text: 'answer' })],
    recoveredTop1Int8: [recovered({ sending: 'int8' })],
    recoveredTop1Llama: [recovered({ model: 'llama-random', split: 2 })],
    recoveredTop1Qwen2: [recovered({ model: 'qwen2-random', split: 2 })],
    recoveredTop1WithoutWeights: [(runs) => those(runs, plain).find(({ attack }) => attack === 'trained')?.top1 ?? null],
    recoveredTop1Defended: [defended, { max: 0.05 }],
  },
  measure: (context) => privacyRuns(context.quick ? quickPlan : fullPlan, context),
  show(document) {
    const { runs } = document
    const prompts = runs.filter(({ text }) => text === 'prompt')
    const demo = prompts.filter(({ model }) => model === 'demo')
    const bars = (some: readonly PrivacyRun[], group: (run: PrivacyRun) => string) =>
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
        tableOf('Attacks', runs, [
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
- *perplexity* and *same tokens*: of the recorded answers, over those with plain states.`,
    }
  },
})

export const privacyRuns = async (plan: PrivacyPlan, context: Parameters<typeof measurePrivacy>[1]) => ({
  conditions: { prompts: plan.prompts, training: plan.training, promptTokens: plan.promptTokens },
  runs: await measurePrivacy(plan, context),
})

function findingsOf(runs: readonly PrivacyRun[]): string {
  const searches = runs.filter(({ attack, sending }) => attack === 'search' && (sending === 'fp16' || sending === 'int8'))
  const least = Math.min(...searches.map(({ top1 }) => top1))
  const deepest = Math.max(...searches.map(({ split }) => split))
  const noises =
    those(runs, plain).length > 0
      ? runs.filter(({ sending, text, attack }) => sending.startsWith('noise') && text === 'prompt' && attack === 'search')
      : []
  const rotated = best(runs, { ...plain, sending: 'rotation' })
  const undone = runs.filter(({ sending, text }) => sending.startsWith('rotation undone') && text === 'prompt')
  return [
    `- **A bridge that has the weights reads everything**: the search finds ${toPercent(least, 1)} or more of the tokens of prompts and answers, with up to ${deepest} layers on the device. Depth costs the attacker time, not success.`,
    ...noises.map(
      ({ sending, top1, perplexityRatio, sameTokens }) =>
        `- ${sending}: ${toPercent(top1)} found, perplexity times ${toDigits(perplexityRatio, 2)}, ${toPercent(sameTokens)} of the tokens the same.`,
    ),
    ...(rotated
      ? [
          `- A secret rotation leaves ${toPercent(rotated.top1)} to an attacker who does not undo it (${rotated.attack}), and ${undone
            .map(({ sending, top1, attack }) =>
              attack === 'search' ? `${toPercent(top1)} (${sending.replace('rotation undone, ', '')})` : '',
            )
            .filter(Boolean)
            .join(', ')} to one who does.`,
        ]
      : []),
    '- None of these reaches 5 % with the same tokens. What keeps the tokens the same is a function that the bridge can compute, of weights that it holds.',
  ].join('\n')
}

/** `brim bench privacy` */
export const command = benchCommand(privacyBench)
