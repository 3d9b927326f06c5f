import type { Host } from './host.ts'

export const deviceKinds = ['jetson', 'termux', 'linux', 'other'] as const
export type DeviceKind = (typeof deviceKinds)[number]

/** Termux' own prefix: there is no other. */
const termuxPrefix = '/data/data/com.termux/files/usr'

/** What sort of device this is, by what only such a one has. */
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
