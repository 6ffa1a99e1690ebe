"""Short texts of many kinds, for tokenizers and segmentation. Written for these tests."""

# ruff: noqa: E501  text is as wide as it is

import base64
import random

_BYTES = random.Random(7).randbytes(900)
_NUMBERS = random.Random(8)

TEXTS = {
    "english": """The harbour of Velm was dug in the spring of 1821, when the river had shifted for the third time in a
generation and the fishing boats could no longer reach the old quay. Ada Korr, who had surveyed the coast for the crown,
proposed a curved breakwater of local granite; the council refused twice before it agreed. Work began on a Tuesday.
By the following winter four hundred labourers were housed in sheds behind the chapel, and the price of bread had doubled.
"We shall have a harbour," wrote the mayor to his brother, "or we shall have a revolution." Nobody remembers which of the
two he would have preferred, although his granddaughter claimed, many years later, that he'd often laughed about it.
""",
    "german": """Der Hafen von Velm wurde im Frühjahr 1821 ausgehoben, nachdem sich der Fluss zum dritten Mal verlagert hatte
und die Fischerboote den alten Kai nicht mehr erreichten. Ada Korr, die im Auftrag der Krone die Küste vermessen hatte,
schlug einen gekrümmten Wellenbrecher aus heimischem Granit vor; der Gemeinderat lehnte zweimal ab, bevor er zustimmte.
""",
    "russian": """Гавань Велма была вырыта весной 1821 года, когда река в третий раз за одно поколение сменила русло и рыбацкие
лодки больше не могли подойти к старому причалу. Ада Корр, составлявшая для короны карты побережья, предложила построить
изогнутый волнолом из местного гранита; совет дважды отказал ей, прежде чем согласиться.
""",
    "chinese": """维尔姆港开凿于一八二一年春天。当时河道在一代人的时间里第三次改道，渔船再也无法靠近旧码头。曾为王室测量海岸的艾达·科尔提议，
用当地的花岗岩修建一道弯曲的防波堤。议会两次拒绝，最后才同意。到了第二年冬天，四百名工人住在教堂后面的工棚里，面包的价格涨了一倍。
“我们要么有一个港口，”市长在给他弟弟的信中写道，“要么有一场革命。”没有人记得他更喜欢哪一个，虽然他的孙女多年以后说，他常常拿这件事开玩笑。
""",
    "japanese": """ヴェルムの港は一八二一年の春に掘られた。川が一世代のうちに三度目の流れを変え、漁船が古い岸壁に近づけなくなったからである。
王室のために海岸を測量したアダ・コルは、地元の花こう岩で曲がった防波堤を造ることを提案した。議会は二度断り、ようやく同意した。
次の冬には四百人の労働者が礼拝堂の裏の小屋に住み、パンの値段は二倍になっていた。「港ができるか、革命が起こるかだ」と市長は弟に書いた。
""",
    "thai": """ท่าเรือเวลม์ถูกขุดขึ้นในฤดูใบไม้ผลิปี ๑๘๒๑ เมื่อแม่น้ำเปลี่ยนทางเป็นครั้งที่สามในหนึ่งชั่วอายุคน และเรือประมงไม่สามารถเข้าถึงท่าเรือเก่าได้อีกต่อไป
เอดา คอร์ ผู้สำรวจชายฝั่งให้กับราชสำนัก เสนอให้สร้างเขื่อนกันคลื่นโค้งจากหินแกรนิตในท้องถิ่น สภาปฏิเสธสองครั้งก่อนที่จะยอมรับ
""",
    "korean": """벨름 항구는 1821년 봄에 만들어졌다. 강이 한 세대 동안 세 번째로 물길을 바꾸어 어선들이 더 이상 옛 부두에 닿을 수 없었기 때문이다.
왕실을 위해 해안을 측량했던 에이다 코르는 그 지방의 화강암으로 굽은 방파제를 쌓자고 제안했고, 의회는 두 번 거절한 뒤에야 동의했다.
""",
    "arabic": """حُفر ميناء فيلم في ربيع عام 1821 عندما غيّر النهر مجراه للمرة الثالثة خلال جيل واحد ولم تعد قوارب الصيد قادرة على
الوصول إلى الرصيف القديم. اقترحت آدا كور بناء حاجز أمواج منحنٍ من الجرانيت المحلي، ورفض المجلس مرتين قبل أن يوافق.
""",
    "hindi": """वेल्म का बंदरगाह 1821 के वसंत में खोदा गया था, जब नदी ने एक पीढ़ी में तीसरी बार अपना रास्ता बदला और मछली पकड़ने वाली नावें पुराने घाट
तक नहीं पहुँच सकती थीं। एडा कोर ने स्थानीय ग्रेनाइट से एक घुमावदार तरंगरोध बनाने का प्रस्ताव रखा; परिषद ने मानने से पहले दो बार मना किया।
""",
    "python": '''class TideTable:
    """Predicted heights of the water at a station, in metres."""

    def __init__(self, station: str, samples: list[tuple[datetime, float]]) -> None:
        self._station = station
        self._samples = sorted(samples, key=lambda sample: sample[0])

    def height_at(self, moment: datetime) -> float:
        index = bisect_left(self._times, moment)
        if index == 0 or index == len(self._samples):
            raise ValueError(f"no prediction for {moment:%Y-%m-%d %H:%M} at {self._station!r}")
        (t0, h0), (t1, h1) = self._samples[index - 1 : index + 1]
        return h0 + (h1 - h0) * ((moment - t0) / (t1 - t0))
''',
    "c": """static int parse_header(struct reader *r, uint32_t *out_len)
{
	uint8_t buf[HEADER_SIZE];
	for (size_t i = 0; i < sizeof(buf); i++) {
		if (reader_next_byte(r, &buf[i]) != READER_OK)
			return -EIO; /* truncated */
	}
	if (memcmp(buf, MAGIC_BYTES, 4) != 0 || (buf[4] & 0x0F) > MAX_VERSION) {
		return -EINVAL;
	}
	*out_len = ((uint32_t)buf[8] << 24) | ((uint32_t)buf[9] << 16) | (buf[10] << 8) | buf[11];
	return 0;
}
""",
    "json": """{"harbours": [{"name": "Velm", "founded": 1821, "position": {"lat": 58.3127, "lon": 11.0942}, "berths": 48, "ice_free": true},
{"name": "Ostra Skar", "founded": 1794, "position": {"lat": 57.0921, "lon": 12.2387}, "berths": 12, "ice_free": false, "notes": null}]}
""",
    "csv": "date,station,height_m,wind_kn,pressure_hpa\n"
    + "".join(
        f"2024-0{_NUMBERS.randint(1, 9)}-{_NUMBERS.randint(10, 28)},VELM-{_NUMBERS.randint(1, 9)},"
        f"{_NUMBERS.uniform(-2, 2):.3f},{_NUMBERS.randint(0, 40)},{_NUMBERS.uniform(960, 1040):.1f}\n"
        for _ in range(20)
    ),
    "table": """| Year | Harbour master | Ships | Cargo (tons) | Remarks |
| ---: | :------------- | ----: | -----------: | :------ |
| 1823 | J. Halloran    |   112 |        8,430 | first full season |
| 1824 | J. Halloran    |   148 |       11,902 | fire in the east shed |
| 1825 | Ada Korr       |   203 |       17,566 | breakwater finished, **no losses** |
| 1826 | Ada Korr       |   197 |       16,021 | cholera: closed for three weeks |
""",
    "markdown": """# The breakwater

## Sources

- *Minutes of the council*, vol. 3, pp. 12-40 (see [the archive](https://archive.example/velm/minutes-3.html))
- `letters/1821-04-02.txt`: the mayor to his brother
- **Unverified:** a sketch, signed "A. K."

> Granite from the Skar quarry, at two crowns the ton.

1. Survey the river bed.
2. Sink the first caissons before the ice.
""",
    "base64": base64.b64encode(_BYTES).decode(),
    "hex": _BYTES[:400].hex(),
    "digits": "".join(_NUMBERS.choices("0123456789", k=600)),
    "emoji": "🎉🚢🌊 👩‍🔬👍🏽 ⚓️🇳🇴🏗️ 😀😂🥲🙃😍 🐟🐠🦀 🔥🔥🔥 ✅❌⚠️ 👨‍👩‍👧‍👦 ❤️‍🔥 🧑🏿‍🚀 🌍🌎🌏 🍞🧂🥖 🏳️‍🌈 🫠🫡🪿 ☔️☀️⛈️ 💯🆗🔟",
    "spaces": "a    b\t\tc        d\n\n\n\n        e\n    f    \n" * 12,
    "log": """2024-03-02T04:11:09.123Z INFO  [worker-3] c.v.tide.Poller - fetched 48 samples in 312ms (status=200, etag="9f8e-17ab")
2024-03-02T04:11:14.870Z WARN  [worker-1] c.v.tide.Poller - retrying https://tides.example/api/v2/stations/VELM?since=1709352669
""",
}


EMBEDDED_TOKENS = {
    "english": 154,
    "german": 107,
    "russian": 117,
    "chinese": 127,
    "japanese": 146,
    "thai": 167,
    "korean": 115,
    "arabic": 93,
    "hindi": 252,
    "python": 190,
    "c": 167,
    "json": 129,
    "csv": 634,
    "table": 167,
    "markdown": 117,
    "base64": 874,
    "hex": 716,
    "digits": 600,
    "emoji": 99,
    "spaces": 168,
    "log": 135,
}
"""Tokens of each text by the embedded model's own tokenizer, as its server counts them (tests/live checks it)."""
