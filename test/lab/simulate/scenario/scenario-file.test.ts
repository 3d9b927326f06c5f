import { describe, expect, it } from 'vitest'
import { parseScenarioFile } from '../../../../lab/simulate/scenario/scenario-file.ts'

const valid = `name: two phones
cloud: {model: llama3-8b, gpu: h100}
devices:
  - {name: phones, count: 2, board: pixel-7-pro, link: {up: 5e6, down: 1e7}}
workload:
  requests: 10
  arrivals: {kind: poisson, perS: 2}
  promptTokens: 100
  outputTokens: {kind: normal, mean: 200, deviation: 50}
  modes: [{mode: cloud}]
`

const numbers = (count: number): number[] => Array.from({ length: count }, (_, i) => i + 1)

/** The file with other text in place of some, and why it is refused. */
function refusal(from: string, to: string, sets: readonly string[] = []): string {
  expect(valid).toContain(from)
  try {
    parseScenarioFile(valid.replace(from, to), 'a.yaml', sets)
  } catch (error) {
    return (error as Error).message
  }
  return 'accepted'
}

describe('parseScenarioFile', () => {
  it('fills in defaults', () => {
    const [{ scenario, swept }, ...others] = parseScenarioFile(valid, 'a.yaml') as [ReturnType<typeof parseScenarioFile>[0]]
    expect({ swept, others }).toEqual({ swept: {}, others: [] })
    expect(scenario).toMatchObject({
      seed: 1,
      cloud: { gpus: 1, policy: 'tokenflow' },
      workload: { outputTokens: { kind: 'normal', min: 1 }, modes: [{ mode: 'cloud', share: 1 }] },
    })
  })

  it('gives a swept field the one value that is set, by whichever path', () => {
    const swept = `${valid}sweep: {workload.modes.0.mode: [cloud, local], cloud.gpu: [a6000, h100]}`
    const variants = parseScenarioFile(swept, 'a.yaml', ['workload.modes.cloud.mode=auto'])
    expect(variants.map(({ swept }) => swept)).toEqual([{ 'cloud.gpu': 'a6000' }, { 'cloud.gpu': 'h100' }])
    expect(variants.map(({ scenario }) => scenario.workload.modes[0]!.mode)).toEqual(['auto', 'auto'])
    const other = parseScenarioFile(swept, 'a.yaml', ['cloud.gpu=h200', 'sweep={seed: [1, 2]}'])
    expect(other.map(({ swept }) => swept)).toEqual([{ seed: 1 }, { seed: 2 }])
  })

  it('says which --set is no YAML', () => {
    expect(() => parseScenarioFile(valid, 'a.yaml', ['cloud={'])).toThrow('the value of --set cloud={ is no YAML')
  })

  it('reads JSON too', () => {
    const [own] = parseScenarioFile(valid, 'a.yaml')
    expect(parseScenarioFile(JSON.stringify(own!.scenario), 'a.json')).toEqual([own])
  })

  it.each([
    ['requests: 10', 'requests: 0', 'a.yaml:6: workload.requests is 0: it must be a whole number above 0'],
    ['requests: 10', 'requests: many', 'a.yaml:6: workload.requests is "many": it must be a whole number above 0'],
    ['requests: 10', 'requets: 10', 'workload.requets is unknown; did you mean "requests"?; the fields are requests, arrivals'],
    ['kind: poisson', 'kind: posson', 'a.yaml:7: workload.arrivals.kind is "posson": it must be poisson, burst, trace or list'],
    ['perS: 2', 'perS: -2', 'workload.arrivals.perS is -2: it must be a number above 0'],
    [', perS: 2', '', 'workload.arrivals.perS is missing: it must be a number above 0'],
    ['mean: 200, ', '', 'workload.outputTokens.mean is missing: it must be a number above 0'],
    ['promptTokens: 100', 'promptTokens: [1]', 'workload.promptTokens is [1]: it must be a number, at least 0, {kind: uniform'],
    ['up: 5e6', 'up: fast', 'devices.0.link.up is "fast": it must be a number above 0, {walk, …} or {trace, …}'],
    ['up: 5e6', 'up: {walk: [9, 1]}', 'devices.0.link.up.walk must have the lower rate first'],
    [
      'promptTokens: 100',
      'promptTokens: {kind: uniform, min: 9, max: 1}',
      'workload.promptTokens must have a min that is not above',
    ],
    ['count: 2', 'count: 2, powerModes: [2]', 'devices.0.powerModes.0 is 2: it must be a number above 0, at most 1'],
    ['mode: cloud', 'mode: clod', 'workload.modes.0.mode is "clod": it must be one of cloud, local, hat'],
    ['h100', 'h101', 'cloud.gpu is "h101", which is no GPU; did you mean "h100"?; '],
    ['pixel-7-pro', 'pixel', 'devices.0.board is "pixel", which is no board; did you mean "pixel-7-pro"?'],
    ['llama3-8b', 'llama9', 'cloud.model is "llama9", which is no model; '],
    ['gpu: h100', 'gpu: h100, policy: lifo', 'it must be one of decode-first, tokenflow, fcfs, chunked, andes'],
    [
      'cloud: {model: llama3-8b, gpu: h100}\n',
      '',
      'workload.modes.0.mode is cloud, which needs a cloud or a server in the scenario',
    ],
    ['  promptTokens: 100\n', '', 'workload.promptTokens is missing: only a trace or a list has lengths of its own'],
    ['mode: cloud', 'mode: cloud, groups: [tablets]', 'groups.0 is "tablets", which is no group of devices; they are phones'],
    ['mode: cloud', 'mode: hat, groups: []', 'modes.0.groups is empty, but only devices are answered by hat'],
    ['name: two phones', 'name: [', 'a.yaml:2: '],
    [valid, '- 1', 'a.yaml: a scenario has fields such as "name" and "workload"'],
  ])('names the field that is wrong, and what is allowed: %j → %j', (from, to, problem) => {
    expect(refusal(from, to)).toContain(problem)
  })

  it('names every problem, up to eight', () => {
    const message = refusal(valid, 'workload: {}')
    for (const field of ['name', 'workload.requests', 'workload.arrivals', 'workload.modes'])
      expect(message).toContain(`: ${field} is missing`)
    expect(refusal('count: 2', 'a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1, i: 1, count: 2')).toContain('and 1 more')
  })

  it('changes fields by their paths, items of lists by number or name', () => {
    const sets = [
      'workload.requests=7',
      'devices.phones.count=9',
      'devices.0.link.up={walk: [1, 2]}',
      'workload.modes.cloud.share=0.5',
    ]
    const [{ scenario }] = parseScenarioFile(valid, 'a.yaml', sets) as [ReturnType<typeof parseScenarioFile>[0]]
    expect(scenario).toMatchObject({
      devices: [{ count: 9, link: { up: { walk: [1, 2] } } }],
      workload: { requests: 7, modes: [{ share: 0.5 }] },
    })
    expect(refusal(valid, valid, ['cloud.gpu=h999'])).toContain('--set cloud.gpu=h999: cloud.gpu is "h999", which is no GPU')
    expect(refusal(valid, valid, ['cloud.gpu.name=h999'])).toContain('cloud.gpu is "h100", which has no fields')
    expect(refusal(valid, valid, ['cloud.gpu'])).toBe('--set cloud.gpu has no value')
  })

  it('makes a scenario of every combination of a sweep', () => {
    const variants = parseScenarioFile(`${valid}sweep: {cloud.gpu: [a6000, h100], workload.arrivals.perS: [1, 2, 3]}`, 'a.yaml')
    expect(variants.map(({ swept }) => Object.values(swept))).toEqual([
      ['a6000', 1],
      ['a6000', 2],
      ['a6000', 3],
      ['h100', 1],
      ['h100', 2],
      ['h100', 3],
    ])
    expect(variants.map(({ scenario }) => [scenario.cloud?.gpu, scenario.workload.arrivals])[4]).toEqual([
      'h100',
      { kind: 'poisson', perS: 2 },
    ])
  })

  it.each([
    ['sweep: {cloud.gpu: [a6000, a6001]}', 'a.yaml:11: cloud.gpu is "a6001", which is no GPU'],
    ['sweep: {cloud.gpu: h100}', 'a.yaml:11: sweep.cloud.gpu must be a list of values'],
    ['sweep: [1]', 'sweep must be fields by their paths'],
    [`sweep: {seed: [${numbers(101).join()}], cloud.gpus: [${numbers(100).join()}]}`, '10100 combinations'],
  ])('refuses the sweep %j', (sweep, problem) => {
    expect(refusal(valid, `${valid}${sweep}`)).toContain(problem)
  })
})
