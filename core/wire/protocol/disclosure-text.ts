import type { Disclosure } from './disclosures.ts'

/** What a person reads of an entry: its time, answer, mode, why so, what has left the device, and where it went. */
export function disclosureCells(entry: Disclosure): string[] {
  const { at, answer, mode, reason, rule, way, destination } = entry
  const to = [way === 'hat' ? 'bridge' : way, destination].filter((part) => part !== null).join(' ')
  return [at, `${answer}`, mode ?? '–', [reason, rule].join(' ').trim(), contentOf(entry), to]
}

function contentOf({ content, state, requests, characters, tokens, rows, bytes }: Disclosure): string {
  const of = (value: number, unit: string) => `${value.toLocaleString('en-US')} ${unit}`
  const ended = state === 'ended' ? '' : `, ${state}`
  if (content === 'nothing') return 'nothing'
  if (content === 'counts') return 'sums of tokens, in telemetry'
  if (content === 'states') return `states of ${of(rows, 'tokens')}, ${of(bytes, 'bytes')}${ended && `${ended}: at most`}`
  const back = tokens === null ? '' : `, ${of(tokens, 'tokens')} of the answer`
  if (requests === 0) return 'nothing: no connection was made'
  const times = requests > 1 ? ` in ${of(requests, 'requests')}` : ''
  return `text of ${of(characters, 'characters')}, ${of(bytes, 'bytes')}${times}${back}${ended}`
}
