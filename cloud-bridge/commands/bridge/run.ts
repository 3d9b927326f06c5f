import { statSync } from 'node:fs'
import { systemClock, untilAborted } from '../../../core/kit/base/clock.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { isJournal } from '../../../core/kit/base/journal.ts'
import { orAborted } from '../../../core/kit/base/or-aborted.ts'
import { keepHeapCompact } from '../../../core/kit/base/small-heap.ts'
import { isTermination } from '../../../core/kit/base/termination.ts'
import { withTimeout } from '../../../core/kit/base/with-timeout.ts'
import type { OptionsOf } from '../../../core/kit/cli/command.ts'
import { limitFlag } from '../../../core/kit/cli/limit-flag.ts'
import { defineConfiguredCommand } from '../../../core/kit/config-file/configured-command.ts'
import { startService } from '../../../core/kit/service/service.ts'
import { withDrivers } from '../../../core/model/engine/provider.ts'
import type { Bridge, BridgeVariant } from '../../bridge.ts'
import { BridgeFields, type BridgeSettings } from '../../config.ts'
import { BridgeLimits } from '../../limits.ts'
import { bridgeStateDir } from '../state-dir.ts'

const { limits: _, ...fields } = BridgeFields.shape

export const options = {
  ...fields,
  stateDir: fields.stateDir.optional().meta({ fallback: '~/.local/state/brim/bridge' }),
  limit: limitFlag(BridgeLimits),
}

export const command = defineConfiguredCommand({
  examples: [
    ['brim bridge run --bundle qwen', 'on this machine: MQTT on port 1883, HTTP and WebSocket on 7070'],
    ['brim bridge run --bundle qwen --mqtt-port 0 --http-port 0 --json', 'free ports, printed as one line of JSON'],
    [
      'brim bridge run --bundle qwen --host 10.0.0.5 --tls-cert cert.pem --tls-key key.pem',
      'for enrolled devices elsewhere: MQTT over TLS on port 8883',
    ],
    [
      'brim bridge run --upstream http://127.0.0.1:8000 --upstream-model qwen2.5-7b',
      "answers of another server with OpenAI's API",
    ],
    [
      'brim bridge run --upstream "http://10.0.0.8:8000 weight=2" --upstream http://10.0.0.9:8000 --upstream-model qwen2.5-7b',
      'of several, the first with twice as many',
    ],
    ['brim bridge run --bundle new --bundle old', 'while the fleet changes its model: devices have either of the two'],
    ['brim bridge run --config bridge.yaml', 'options from a file, each by its name: "http-port: 7070"'],
    ['brim bridge run --bundle qwen --broker mqtt://127.0.0.1:1883 --broker-admin-file admin', 'with a mosquitto of your own'],
  ],
  options,
  groups: {
    'mqtt-port': 'Listeners',
    'device-answers': 'Access and TLS',
    fleet: 'Serving',
    'answer-mode': 'Sketches (PICE)',
    'frame-tokens': 'Sessions of devices (HAT)',
    'kv-budget-bytes': 'KV memory',
    'telemetry-samples': 'Retention',
    'drain-seconds': 'Service and log',
  },
  run: ({ parse }, io) => runBridge(parse(), io),
})

/** The settings of a bridge with these options. @throws BrimError USAGE */
export function bridgeSettings(given: OptionsOf<typeof options>, io: Io): BridgeSettings {
  const { json: _, stateDir, bundles, limit = [], ...settings } = given
  // The bridge would start, and devices would look for these bundles in vain.
  if (bundles !== undefined && !statSync(bundles, { throwIfNoEntry: false })?.isDirectory())
    throw new BrimError('USAGE', `--bundles ${bundles} is not a folder`, {
      hint: 'give the folder that holds the bundle folders',
    })
  return {
    ...settings,
    bundles,
    library: io.env.ORT_LIB || undefined,
    otlpEndpoint: settings.otlpEndpoint ?? (io.env.OTEL_EXPORTER_OTLP_ENDPOINT || undefined),
    provider: withDrivers(settings.provider, io.env),
    limits: Object.fromEntries(limit),
    log: { ...settings.log, priorities: isJournal(io.env) },
    stateDir: bridgeStateDir(stateDir, io),
  }
}

/**
 * Runs a bridge until the command is interrupted.
 * @param variant of a benchmark
 */
export async function runBridge(given: OptionsOf<typeof options>, io: Io, variant?: BridgeVariant): Promise<void> {
  const settings = bridgeSettings(given, io)
  keepHeapCompact()
  const { startBridge } = await import('../../bridge.ts')
  const starting = startBridge(settings, systemClock, variant)
  const bridge = await orAborted(starting, io.signal, (late) => late.close())
  const service = await startService({
    env: io.env,
    stalled: () => bridge.stalled,
    status: () => bridge.status,
    clock: systemClock,
    logger: bridge.logger,
  })
  try {
    printReady(bridge, given.json, io)
    const ending = AbortSignal.any([io.signal, bridge.ending].filter((each) => each !== undefined))
    await Promise.race([untilAborted(ending), bridge.failed].filter((each) => each !== undefined))
    service.stopping()
    if (isTermination(ending)) await withTimeout(given.drainS * 1_000, bridge.drain(), systemClock)
  } finally {
    await bridge.close()
    await service.close()
  }
}

function printReady({ mqttUrl, httpUrl, dataUrl, modelIds, computing, auth, pin }: Bridge, json: boolean, io: Io): void {
  if (json) {
    io.out(JSON.stringify({ event: 'ready', mqttUrl, httpUrl, dataUrl, modelId: modelIds[0], modelIds, computing, auth, pin }))
    return
  }
  const models = modelIds.length > 0 ? modelIds : ['none: answers come from --upstream, and devices get no sessions']
  const lines = [
    'bridge ready',
    `  MQTT    ${mqttUrl}`,
    `  HTTP    ${httpUrl}`,
    `  data    ${dataUrl}`,
    ...models.map((model) => `  model   ${model}`),
    ...computing.map(({ provider, reason }) => `  on      ${provider}: ${reason}`),
    ...(pin === undefined ? [] : [`  pin     ${pin}`]),
    `  accepts ${auth ? 'enrolled devices' : 'every device on this machine'}`,
  ]
  io.out(lines.join('\n'))
}
