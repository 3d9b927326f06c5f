import { type ModeName, modeNeeds, partName } from './mode-name.ts'

interface Parts {
  readonly cloud?: unknown
  readonly server?: unknown
  readonly devices: readonly { readonly name: string }[]
  readonly workload: {
    readonly arrivals: { readonly kind: string; readonly requests?: readonly { readonly part?: string | undefined }[] }
    readonly promptTokens?: unknown
    readonly outputTokens?: unknown
    readonly modes: readonly {
      readonly mode: ModeName
      readonly name?: string | undefined
      readonly groups?: readonly string[] | undefined
      readonly promptTokens?: unknown
      readonly outputTokens?: unknown
    }[]
  }
}

interface Problem {
  readonly path: PropertyKey[]
  readonly text: string
}

const partTexts = { cloud: 'a cloud', server: 'a cloud or a server', devices: 'devices' }

/** What a scenario lacks, field by field, although each field alone may be right. The texts follow the fields. */
export function missingParts({ cloud, server, devices, workload }: Parts): Problem[] {
  const names = devices.map(({ name }) => name)
  const has = { cloud: cloud !== undefined, server: (cloud ?? server) !== undefined, devices: names.length > 0 }
  const twice = names.flatMap((name, i) =>
    names.indexOf(name) < i ? [{ path: ['devices', i, 'name'], text: `is "${name}", as that of an earlier group` }] : [],
  )
  const inModes = workload.modes.flatMap(({ mode, groups }, i) => [
    ...modeNeeds[mode].parts
      .filter((part) => !has[part])
      .map((part) => ({
        path: ['workload', 'modes', i, 'mode'],
        text: `is ${mode}, which needs ${partTexts[part]} in the scenario`,
      })),
    ...(groups?.length === 0 && 'devicesAsk' in modeNeeds[mode]
      ? [{ path: ['workload', 'modes', i, 'groups'], text: `is empty, but only devices are answered by ${mode}` }]
      : []),
    ...(groups ?? []).flatMap((group, at) => {
      const text = `is "${group}", which is no group of devices; they are ${names.join(', ') || 'none'}`
      return names.includes(group) ? [] : [{ path: ['workload', 'modes', i, 'groups', at], text }]
    }),
  ])
  const parts = workload.modes.map(partName)
  const { requests = [] } = workload.arrivals
  const unknownParts = requests.flatMap(({ part }, i) =>
    part === undefined || parts.includes(part)
      ? []
      : [
          {
            path: ['workload', 'arrivals', 'requests', i, 'part'],
            text: `is "${part}", which is no part of the workload; they are ${parts.join(', ')}`,
          },
        ],
  )
  const hasLengths = workload.arrivals.kind === 'trace' || workload.arrivals.kind === 'list'
  const lengths = (['promptTokens', 'outputTokens'] as const).flatMap((field) => {
    const isGiven = workload[field] !== undefined || workload.modes.every((mode) => mode[field] !== undefined)
    const text = 'is missing: only a trace or a list has lengths of its own'
    return isGiven || hasLengths ? [] : [{ path: ['workload', field], text }]
  })
  return [...twice, ...inModes, ...unknownParts, ...lengths]
}
