import { type ControlOptions, connectControl } from '../../cloud-bridge/link/control.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { silentLogger } from './silent-logger.ts'

/** Connects bridge-1 to a broker. */
export const joinFleet = (url: string, options: { birth: number } & Partial<ControlOptions>) =>
  connectControl({
    url,
    fleet: 'default',
    bridge: 'bridge-1',
    describe: () => ({ data: 'ws://127.0.0.1:1/v1/data', sessions: 2 }),
    onDeviceState: () => {},
    onDeviceTelemetry: () => {},
    onJobEvent: () => {},
    onDeviceReply: () => {},
    onDeviceLog: () => {},
    clock: systemClock,
    logger: silentLogger(),
    ...options,
  })
