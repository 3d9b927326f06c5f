import type { Host } from '../host.ts'
import { powerOf } from '../parse/power.ts'
import type { Source } from '../sample.ts'

const devices = '/sys/bus/i2c/devices'
const oldDriver = '/sys/bus/i2c/drivers/ina3221x'
/** Addresses of the INA3221 on every Jetson. */
const address = /^\d+-004[01]$/
/** The chip's seventh channel is the sum of these. */
const channels = [1, 2, 3]

/** hwmon folders of the sensors, JetPack 5 and later. */
export async function sensorsOf(host: Host): Promise<string[]> {
  const chips = (await host.list(devices)).filter((name) => address.test(name))
  const found = await Promise.all(
    chips.map(async (chip) => {
      const folder = `${devices}/${chip}/hwmon`
      return (await host.list(folder)).map((hwmon) => `${folder}/${hwmon}`)
    }),
  )
  return found.flat()
}

/** Folders of the sensors with the driver of JetPack 4. */
async function oldSensorsOf(host: Host): Promise<string[]> {
  const chips = (await host.list(oldDriver)).filter((name) => address.test(name))
  const found = await Promise.all(
    chips.map(async (chip) => {
      const folder = `${oldDriver}/${chip}`
      return (await host.list(folder)).filter((name) => name.startsWith('iio:device')).map((name) => `${folder}/${name}`)
    }),
  )
  return found.flat()
}

type Rail = readonly [label: string, milliwatts: number]

/** The files hold mV and mA. */
async function readRail(host: Host, folder: string, channel: number): Promise<Rail[]> {
  const [label, millivolts, milliamperes] = await Promise.all([
    host.text(`${folder}/in${channel}_label`),
    host.number(`${folder}/in${channel}_input`),
    host.number(`${folder}/curr${channel}_input`),
  ])
  if (label === undefined || millivolts === undefined || milliamperes === undefined) return []
  return [[label.trim(), Math.round((millivolts * milliamperes) / 1_000)]]
}

/** The files hold mW, or mV and mA. @param channel counts from 0 */
async function readOldRail(host: Host, folder: string, channel: number): Promise<Rail[]> {
  const [label, power, millivolts, milliamperes] = await Promise.all([
    host.text(`${folder}/rail_name_${channel}`),
    host.number(`${folder}/in_power${channel}_input`),
    host.number(`${folder}/in_voltage${channel}_input`),
    host.number(`${folder}/in_current${channel}_input`),
  ])
  const computed = millivolts !== undefined && milliamperes !== undefined ? (millivolts * milliamperes) / 1_000 : undefined
  const milliwatts = power ?? computed
  return label === undefined || milliwatts === undefined ? [] : [[label.trim(), Math.round(milliwatts)]]
}

export function jetsonRails(host: Host): Source {
  return {
    name: 'rails',
    async read() {
      const [sensors, oldSensors] = await Promise.all([sensorsOf(host), oldSensorsOf(host)])
      const rails = await Promise.all([
        ...sensors.flatMap((folder) => channels.map((channel) => readRail(host, folder, channel))),
        ...oldSensors.flatMap((folder) => channels.map((channel) => readOldRail(host, folder, channel - 1))),
      ])
      return { power: powerOf(Object.fromEntries(rails.flat())) }
    },
  }
}
