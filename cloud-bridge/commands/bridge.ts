import { statSync } from 'node:fs'
import type { CommandModule } from 'yargs'
import { untilAborted } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { type Bridge, startBridge } from '../bridge.ts'
import type { BridgeSettings } from '../config.ts'
import { auditCommand } from './audit.ts'
import { keyCommand } from './key.ts'
import { bridgeStateDir } from './state-dir.ts'
import { tokenCommand } from './token.ts'

interface RunOptions {
  bundle: string
  bundles?: string | undefined
  stateDir?: string | undefined
  mqttPort?: number | undefined
  httpPort?: number | undefined
  dataUrl?: string | undefined
  broker?: string | undefined
  'broker-admin-file'?: string | undefined
  'broker-hook-secret-file'?: string | undefined
  host?: string | undefined
  auth?: boolean | undefined
  plaintext?: boolean | undefined
  'tls-cert'?: string | undefined
  'tls-key'?: string | undefined
  fleet?: string | undefined
  id?: string | undefined
  threads?: number | undefined
  pipeline?: number | undefined
  prefixKeep?: number | undefined
  tokenBudget?: number | undefined
  promptTokens?: number | undefined
  frameTokens?: number | undefined
  jobKeep?: number | undefined
  deadJobKeep?: number | undefined
  jobKeepCount?: number | undefined
  jobKeepBytes?: number | undefined
  telemetrySamples?: number | undefined
  logLevel?: BridgeSettings['logLevel']
  json?: boolean | undefined
}

/** `brim bridge …` */
export function bridgeCommand(io: Io): CommandModule {
  return {
    command: 'bridge <verb>',
    describe: "the cloud's side: serves the middle of a model to many devices",
    builder: (yargs) =>
      yargs
        .usage('Usage: brim bridge <verb> [options]')
        .example('brim bridge run --bundle qwen', 'serve the middle of a model to the devices of this machine')
        .example('brim bridge token create --approve > token', 'what a device enrols with')
        .example('brim bridge key create --name sam --role admin | brim login --bridge-url …', 'a person who administers')
        .command(runCommand(io))
        .command(tokenCommand(io))
        .command(keyCommand(io))
        .command(auditCommand(io))
        .demandCommand(1, 'say what the bridge shall do: brim bridge --help'),
    handler: () => {},
  }
}

function runCommand(io: Io): CommandModule<object, RunOptions> {
  return {
    command: 'run',
    describe: 'run a bridge until it is stopped',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim bridge run --bundle <dir> [options]')
        .example('brim bridge run --bundle qwen', 'MQTT on port 1883, HTTP and WebSocket on 7070, of this machine')
        .example('brim bridge run --bundle qwen --mqtt-port 0 --http-port 0 --json', 'free ports, told in one JSON line')
        .example(
          'brim bridge run --bundle qwen --host 10.0.0.5 --tls-cert cert.pem --tls-key key.pem',
          'for enrolled devices elsewhere',
        )
        .example(
          'brim bridge run --bundle qwen --broker mqtt://127.0.0.1:1883 --broker-admin-file admin',
          'on a mosquitto of your own, which this bridge tells who may do what',
        )
        .option('bundle', { type: 'string', demandOption: true, describe: 'folder of the bundle' })
        .option('bundles', {
          type: 'string',
          describe: 'folder of more bundles: devices install these, and that one, by "brim job submit bundle.install"',
        })
        .option('state-dir', { type: 'string', describe: "folder of the bridge's database" })
        .option('mqtt-port', { type: 'number', describe: 'port of the MQTT broker; 0: a free one [1883]' })
        .option('broker', {
          type: 'string',
          describe: 'mqtt(s)://host:port: the MQTT broker, as devices reach it [one in this process]',
        })
        .option('broker-admin-file', {
          type: 'string',
          describe: "file with <name>:<password> of the administrator of a mosquitto's dynamic security",
        })
        .option('broker-hook-secret-file', {
          type: 'string',
          describe: 'file with the secret by which EMQX or VerneMQ ask this bridge who may do what, at /v1/hook',
        })
        .option('http-port', { type: 'number', describe: 'port of HTTP and the data plane; 0: a free one [7070]' })
        .option('data-url', {
          type: 'string',
          describe: 'where devices are told to find the data plane: a proxy before this bridge [as bound]',
        })
        .option('host', { type: 'string', describe: 'address to listen on [127.0.0.1]' })
        .option('auth', {
          type: 'boolean',
          describe: 'let enrolled devices in alone [beyond loopback, and once a device has enrolled]',
        })
        .option('tls-cert', {
          type: 'string',
          describe: 'PEM file: speak TLS everywhere, with this certificate; read again when renewed',
        })
        .option('tls-key', { type: 'string', describe: 'PEM file of its key, not readable by everybody' })
        .option('plaintext', {
          type: 'boolean',
          describe: 'beyond loopback too: tokens and hidden states can be read on the way',
        })
        .option('fleet', { type: 'string', describe: 'name of the fleet [default]' })
        .option('id', { type: 'string', describe: 'name of this bridge [bridge-1]' })
        .option('prefix-keep', {
          type: 'number',
          describe: "seconds that an answer's KV stands ready for the next prompt that begins alike; 0: not at all [300]",
        })
        .option('token-budget', { type: 'number', describe: 'tokens of one step of all sessions together [512]' })
        .option('prompt-tokens', { type: 'number', describe: 'of them those of prompts, while others decode [128]' })
        .option('frame-tokens', {
          type: 'number',
          describe: "most tokens of a prompt that come in one frame, in as many steps as it takes [a step's]",
        })
        .option('telemetry-samples', {
          type: 'number',
          describe: 'of each device so many samples of telemetry are kept, about 2 KB each; 0: none [8640]',
        })
        .option('threads', { type: 'number', describe: 'threads per operator [2]' })
        .option('pipeline', {
          type: 'number',
          describe: 'stages of the middle that work on different steps at once; no faster where they share their cores [1]',
        })
        .option('job-keep', {
          type: 'number',
          describe: 'days that finished jobs are kept, with their texts and idempotency keys [7]',
        })
        .option('dead-job-keep', { type: 'number', describe: 'days that jobs are kept that came to nothing [30]' })
        .option('job-keep-count', { type: 'number', describe: 'most finished jobs that are kept [100000]' })
        .option('job-keep-bytes', { type: 'number', describe: 'largest database of jobs; the oldest finished go [4 GiB]' })
        .option('log-level', {
          choices: ['silent', 'error', 'warn', 'info', 'debug'] as const,
          describe: 'log on stderr [warn]',
        }),
    handler: async ({ json, ...options }) => {
      const bridge = await startBridge(settingsOf(options, io))
      try {
        tellReady(bridge, json === true, io)
        await untilAborted(io.signal)
      } finally {
        await bridge.close()
      }
    },
  }
}

/** Only what was said: the rest is the configuration's to decide. */
function settingsOf(options: RunOptions, io: Io): BridgeSettings {
  const { bundle, bundles, mqttPort, httpPort, host, fleet, id, threads, prefixKeep: prefixKeepS, logLevel = 'warn' } = options
  const { pipeline, tokenBudget, promptTokens, frameTokens, telemetrySamples } = options
  const stateDir = bridgeStateDir(options.stateDir, io)
  const library = io.env.ORT_LIB || undefined
  const { dataUrl, auth, plaintext, 'tls-cert': cert, 'tls-key': key } = options
  if ((cert === undefined) !== (key === undefined))
    throw new BrimError('USAGE', 'a certificate and its key go together', { hint: 'give both --tls-cert and --tls-key' })
  const tls = cert === undefined ? undefined : { cert, key }
  // A bridge without them would run, and devices look for them in vain.
  if (bundles !== undefined && !statSync(bundles, { throwIfNoEntry: false })?.isDirectory())
    throw new BrimError('USAGE', `--bundles ${bundles} is no folder`, {
      hint: 'give the folder that holds the folders of bundles',
    })
  const { jobKeep, deadJobKeep, jobKeepCount, jobKeepBytes } = options
  const daysS = (days: number | undefined) => (days === undefined ? undefined : days * 86_400)
  const kept = { keepS: daysS(jobKeep), keepDeadS: daysS(deadJobKeep), keepCount: jobKeepCount, keepBytes: jobKeepBytes }
  const jobs = Object.fromEntries(Object.entries(kept).filter(([, value]) => value !== undefined))
  const { broker: url, 'broker-admin-file': adminFile, 'broker-hook-secret-file': hookSecretFile } = options
  const broker = url === undefined ? undefined : { url, adminFile, hookSecretFile }
  if (!broker && (adminFile !== undefined || hookSecretFile !== undefined))
    throw new BrimError('USAGE', 'that file is for a broker of your own', { hint: 'give its address: --broker mqtt://host:port' })
  if (broker && mqttPort !== undefined)
    throw new BrimError('USAGE', 'there is one broker: the one at --broker, or one in this process at --mqtt-port', {
      hint: 'give one of them',
    })
  const serving = { pipeline, tokenBudget, promptTokens, frameTokens }
  const said = Object.entries({
    bundles,
    library,
    dataUrl,
    auth,
    tls,
    plaintext,
    broker,
    mqttPort,
    httpPort,
    host,
    fleet,
    id,
    threads,
    prefixKeepS,
    jobs,
    telemetrySamples,
    ...serving,
  }).filter(([, value]) => value !== undefined)
  return { bundle, stateDir, logLevel, ...Object.fromEntries(said) }
}

function tellReady(bridge: Bridge, json: boolean, io: Io): void {
  const { mqttUrl, httpUrl, dataUrl, modelId, auth, pin } = bridge
  if (json) io.out(JSON.stringify({ event: 'ready', mqttUrl, httpUrl, dataUrl, modelId, auth, pin }))
  else
    io.out(
      `bridge ready\n  MQTT   ${mqttUrl}\n  HTTP   ${httpUrl}\n  data   ${dataUrl}\n  model  ${modelId}${pin === undefined ? '' : `\n  pin    ${pin}`}\n  lets in ${auth ? 'enrolled devices' : 'everybody on this machine'}`,
    )
}
