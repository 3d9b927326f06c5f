import type { Host } from './host.ts'

export type DeviceKind = 'jetson' | 'termux' | 'linux' | 'other'

/** The fixed prefix of Termux. */
const termuxPrefix = '/data/data/com.termux/files/usr'

/** Detects the kind of device by files that only that kind has. */
export async function kindOf(host: Host): Promise<DeviceKind> {
  const [release, compatible, termux, meminfo] = await Promise.all([
    host.text('/etc/nv_tegra_release'),
    host.text('/proc/device-tree/compatible'),
    host.list(termuxPrefix),
    host.text('/proc/meminfo'),
  ])
  if (release !== undefined || compatible?.includes('nvidia,tegra')) return 'jetson'
  if (termux.length > 0) return 'termux'
  return meminfo === undefined ? 'other' : 'linux'
}
