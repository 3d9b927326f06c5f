import { toDigits, toPercent } from '../../frame/tables.ts'
import type { PrivacyRun } from './measure.ts'
import { attacksOf, best, framesOf, plain } from './runs.ts'

/** What the page says first. */
export function findingsOf(runs: readonly PrivacyRun[]): string {
  const attacks = attacksOf(runs)
  const searches = attacks.filter(({ attack, sending }) => attack === 'search' && (sending === 'fp16' || sending === 'int8'))
  const least = Math.min(...searches.map(({ top1 }) => top1))
  const deepest = Math.max(...searches.map(({ split }) => split))
  const rotated = best(runs, { ...plain, sending: 'rotation' })
  const undone = attacks.filter(({ sending, text }) => sending.startsWith('rotation undone') && text === 'prompt')
  return [
    `- **A bridge that has the weights reads everything**: the search finds ${toPercent(least, 1)} or more of the tokens of prompts and answers, with up to ${deepest} layers on the device. Depth costs the attacker time, not success.`,
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
    ...framesOf(runs)
      .filter(({ wire, padding, threshold }) => wire === 'fp16' && padding && threshold === undefined)
      .map(({ intervalMs, observed: { all, prompt, length }, tbtOverPlain, bytesOverPlain }) => {
        const how = intervalMs === undefined ? 'padded frames' : `frames every ${intervalMs} ms`
        return `- An observer of the link tells ${toPercent(all.mean)} of the answers apart by ${how} (guessing: ${toPercent(all.chance)}), by the prompt’s alone ${toPercent(prompt.mean)}, by how long the answer takes ${toPercent(length.mean)}; TBT × ${toDigits(tbtOverPlain, 2)}, bytes × ${toDigits(bytesOverPlain, 2)}.`
      }),
    '- No defence of the states reaches 5 % with the same tokens. What keeps the tokens the same is a function that the bridge can compute, of weights that it holds.',
  ].join('\n')
}
