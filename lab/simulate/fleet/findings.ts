import type { FleetConditions } from './fleet-conditions.ts'
import type { FleetRun } from './fleet-run.ts'
import { medianOf, runsOf } from './medians.ts'
import { ablations, keepsText, methods } from './methods.ts'

interface Judged {
  readonly name: string
  readonly value: (run: FleetRun) => number
  readonly text: (value: number) => string
  /** Whether more is better. */
  readonly rises: boolean
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(2)} s`
const judged: readonly Judged[] = [
  { name: 'QoE', value: ({ qoe }) => qoe, text: (value) => value.toFixed(3), rises: true },
  { name: 'mean TTFT', value: ({ ttftMeanMs }) => ttftMeanMs, text: seconds, rises: false },
  { name: 'P95 of TTFT', value: ({ ttftP95Ms }) => ttftP95Ms, text: seconds, rises: false },
  { name: 'stalls', value: ({ stalls }) => stalls, text: (value) => `${(100 * value).toFixed(1)} %`, rises: false },
  {
    name: 'cost of 1,000 requests',
    value: ({ tokenDollars, energyDollars }) => tokenDollars + energyDollars,
    text: (value) => `$${value.toFixed(3)}`,
    rises: false,
  },
]
const [experience, meanTtft] = judged as [Judged, Judged]

/** Differences below this are not told from chance. */
const noise = 0.02
const keeping = methods.filter(keepsText).map(({ name }) => name)
const others = methods.map(({ name }) => name).filter((name) => name !== 'Brim')

/** What the runs say, in words that follow from their figures. */
export function findingsOf(runs: readonly FleetRun[], conditions: FleetConditions): string {
  const { counts, studied, overloaded, ablated } = conditions
  const of = (method: string, gpus: number, { value }: Judged) => medianOf(runsOf(runs, method, gpus), value)
  const isBetter = (a: number, b: number, { rises }: Judged) => (rises ? a > (1 + noise) * b : a < (1 - noise) * b)

  /** Brim's place among some methods, by each figure. */
  const standing = (gpus: number, among: readonly string[]) =>
    judged
      .map((figure) => {
        const own = of('Brim', gpus, figure)
        const ahead = among.filter((name) => isBetter(of(name, gpus, figure), own, figure))
        const list = ahead.map((name) => `${name} ${figure.text(of(name, gpus, figure))}`).join(', ')
        return `${figure.name} ${figure.text(own)} (${ahead.length === 0 ? 'none is better' : `better: ${list}`})`
      })
      .join('; ')

  /** At which numbers of GPUs Brim is better than another one. */
  const crossing = (name: string, figure: Judged) => {
    const won = counts.filter((gpus) => isBetter(of('Brim', gpus, figure), of(name, gpus, figure), figure))
    const lost = counts.filter((gpus) => isBetter(of(name, gpus, figure), of('Brim', gpus, figure), figure))
    const at = (list: readonly number[]) => (list.length === counts.length ? 'any number of' : list.join(', '))
    if (won.length === 0 && lost.length === 0) return `as good as ${name} with any number of GPUs`
    const better = won.length > 0 ? `better than ${name} with ${at(won)} GPUs` : ''
    const worse = lost.length > 0 ? `worse than ${name} with ${at(lost)}` : ''
    return [better, worse].filter((text) => text !== '').join(', ')
  }

  /** Parts without which Brim would be better. */
  const idle = (gpus: number) =>
    ablations.flatMap(({ name }) => {
      const better = [experience, meanTtft].filter((figure) => isBetter(of(name, gpus, figure), of('Brim', gpus, figure), figure))
      const told = better.map((figure) => `${figure.name} ${figure.text(of(name, gpus, figure))}`).join(', ')
      return better.length > 0 ? [`${name} ${told}`] : []
    })
  const parts = (gpus: number) => {
    const better = idle(gpus)
    const own = `Brim has QoE ${experience.text(of('Brim', gpus, experience))}, mean TTFT ${meanTtft.text(of('Brim', gpus, meanTtft))}`
    return better.length === 0 ? `${own}; no other form is better in either` : `${own}; better: ${better.join('; ')}`
  }
  const private_ = keeping.filter((name) => name !== 'Brim')
  return `What the runs say (a method is better where the medians differ by more than ${100 * noise} %):

- Only HAT and the device's own small model keep private text on the device: Brim, ${private_.join(' and ')}. Clouds, PICE and DiSCo get it.
- Two columns are device only's in any case: it pays for no token, so that no method that asks a cloud is cheaper, and its small models write faster
  than readers read, so that nothing stalls once an answer has begun. Methods that give private text to the cloud are spared the waits of HAT for links.
- With ${studied} GPUs, Brim among all: ${standing(studied, others)}.
- With ${studied} GPUs, Brim among those that keep private text: ${standing(studied, private_)}.
- Overloaded, with ${overloaded} GPUs, Brim among all: ${standing(overloaded, others)}.
- QoE against load: Brim is ${others.map((name) => crossing(name, experience)).join('; ')}.
- Mean TTFT against load: Brim is ${others.map((name) => crossing(name, meanTtft)).join('; ')}.
${ablated.map((gpus) => `- What each part is worth, with ${gpus} GPUs: ${parts(gpus)}.`).join('\n')}`
}
