import own from './own-requests.json' with { type: 'json' }

const each = 5
const pick = (list: readonly string[], at: number): string => list[at % list.length]!

/**
 * Requests made from our own phrases, labelled by the rule of Skeleton-of-Thought (Ning et al., ICLR 2024, app. C.2.1): suitable if the
 * answer is a list of points that can be written independently, each with enough details. They say what kinds of request there are;
 * public sets with a free licence have few suitable ones. Deterministic: template by template, with other phrases each time.
 *
 * In a template, {t} is a topic, {o} another one, {n} a name, {l} a programming language, {x} a thing, {j} a role, {a} and {b} numbers.
 */
export function ownExamples(): { request: string; label: 0 | 1 }[] {
  const { topics, others, names, languages, things, jobs, suitable, unsuitable } = own
  const lists: Record<string, readonly string[]> = { t: topics, o: others, l: languages, x: things, j: jobs }
  const filled = (templates: readonly string[], label: 0 | 1) =>
    templates.flatMap((template, row) =>
      Array.from({ length: each }, (_, at) => {
        const place = row * 7 + at * 5
        let name = place
        const request = template.replace(/\{(\w)\}/g, (_, slot: string) => {
          if (slot === 'n') return pick(names, name++)
          if (slot === 'a') return `${3 + ((place * 13) % 95)}`
          if (slot === 'b') return `${2 + ((place * 7) % 19)}`
          return pick(lists[slot]!, place + (slot === 'o' ? 3 : 0))
        })
        return { request: request[0]!.toUpperCase() + request.slice(1), label }
      }),
    )
  return [...filled(suitable, 1), ...filled(unsuitable, 0)]
}
