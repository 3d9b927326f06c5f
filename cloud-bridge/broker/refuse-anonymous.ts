import { connect } from 'mqtt'
import { BrimError } from '../../core/kit/base/errors.ts'
import { brokerNodes } from '../../core/wire/protocol/mqtt-url.ts'

const probeTimeoutMs = 5_000

/** @throws BrimError CONFIG_INVALID where a node of the broker accepts clients without a login */
export async function refuseAnonymousBroker(url: string): Promise<void> {
  await Promise.all(brokerNodes(url).map(refuseAnonymousNode))
}

async function refuseAnonymousNode(url: string): Promise<void> {
  const client = connect(url, { protocolVersion: 4, reconnectPeriod: 0, connectTimeout: probeTimeoutMs })
  const accepted = await new Promise<boolean>((resolve) => {
    client.once('connect', () => resolve(true))
    client.on('error', () => resolve(false))
    client.once('close', () => resolve(false))
  })
  client.end(true)
  if (accepted)
    throw new BrimError('CONFIG_INVALID', `the broker ${url} accepts clients without a login`, {
      hint: 'set "allow_anonymous false" in the configuration of mosquitto; on NATS, include the accounts',
    })
}
