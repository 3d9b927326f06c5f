import type { Clock } from '../../core/kit/base/clock.ts'
import type { Host } from './host.ts'
import type { DeviceKind } from './kind.ts'
import type { Source } from './sample.ts'
import { linuxBattery, termuxBattery } from './sources/battery.ts'
import { disk } from './sources/disk.ts'
import { fan } from './sources/fan.ts'
import { jetsonGpu, linuxGpu } from './sources/gpu.ts'
import { jetsonIdentity, linuxIdentity, linuxPowerMode } from './sources/identity.ts'
import { network } from './sources/network.ts'
import { portable } from './sources/portable.ts'
import { processor } from './sources/processor.ts'
import { jetsonRails } from './sources/rails.ts'
import { systemInformation } from './sources/system-information.ts'
import { tegrastats } from './sources/tegrastats.ts'
import { thermal } from './sources/thermal.ts'

export interface SourceOptions {
  readonly host: Host
  readonly clock: Clock
  /** The disk of this folder is measured. */
  readonly stateDir: string
}

/** The sources of a kind of device, the most reliable first. */
export function sourcesFor(kind: DeviceKind, { host, clock, stateDir }: SourceOptions): readonly Source[] {
  if (kind === 'other') return [disk(stateDir), systemInformation(clock), portable()]
  const common = [processor(host), thermal(host), fan(host), linuxBattery(host), network(host, clock), disk(stateDir)]
  switch (kind) {
    case 'jetson':
      return [
        jetsonIdentity(host, clock),
        linuxIdentity(host),
        jetsonGpu(host),
        jetsonRails(host),
        ...common,
        tegrastats(host, clock),
      ]
    case 'termux':
      return [linuxIdentity(host), linuxPowerMode(host), ...common, termuxBattery(host, clock)]
    case 'linux':
      return [linuxIdentity(host), linuxPowerMode(host), linuxGpu(host), ...common]
    default:
      return kind satisfies never
  }
}
