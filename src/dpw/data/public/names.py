"""How the two protocols call the classes of the eleven datasets."""

from dpw.data.prompts import readable

CALTECH101_COOP = {"airplanes": "airplane", "Faces": "face", "Leopards": "leopard", "Motorbikes": "motorbike"}

CALTECH101_ZSCL = {
    "Faces": "off-center face",
    "Faces_easy": "centered face",
    "Leopards": "leopard",
    "Motorbikes": "motorbike",
    "airplanes": "airplane",
    "car_side": "side of a car",
    "cougar_body": "body of a cougar cat",
    "cougar_face": "face of a cougar cat",
    "crocodile_head": "head of a  crocodile",
    "flamingo_head": "head of a flamingo",
    "snoopy": "snoopy (cartoon beagle)",
    "yin_yang": "yin and yang symbol",
}

EUROSAT_COOP = {
    "AnnualCrop": "Annual Crop Land",
    "Forest": "Forest",
    "HerbaceousVegetation": "Herbaceous Vegetation Land",
    "Highway": "Highway or Road",
    "Industrial": "Industrial Buildings",
    "Pasture": "Pasture Land",
    "PermanentCrop": "Permanent Crop Land",
    "Residential": "Residential Buildings",
    "River": "River",
    "SeaLake": "Sea or Lake",
}

EUROSAT_ZSCL = {
    "AnnualCrop": "annual crop land",
    "Forest": "forest",
    "HerbaceousVegetation": "brushland or shrubland",
    "Highway": "highway or road",
    "Industrial": "industrial buildings or commercial buildings",
    "Pasture": "pasture land",
    "PermanentCrop": "permanent crop land",
    "Residential": "residential buildings or homes or apartments",
    "River": "river",
    "SeaLake": "lake or sea",
}

MNIST = (
    "0 - zero",
    "1 - one",
    "2 - two",
    "3 - three",
    "4 - four",
    "5 - five",
    "6 - six",
    "7 - seven",
    "8 - eight",
    "9 - nine",
)


def unchanged(name: str) -> str:
    """Keep a name as it is."""
    return name


def caltech101_coop(folder: str) -> str:
    """CoOp's name of a Caltech101 folder."""
    return CALTECH101_COOP.get(folder, folder)


def caltech101_zscl(folder: str) -> str:
    """OpenAI's name of a Caltech101 folder."""
    return CALTECH101_ZSCL.get(folder, readable(folder))


def eurosat_coop(folder: str) -> str:
    """CoOp's name of a EuroSAT folder."""
    return EUROSAT_COOP.get(folder, folder)


def eurosat_zscl(folder: str) -> str:
    """OpenAI's name of a EuroSAT folder."""
    return EUROSAT_ZSCL.get(folder, folder)


def pet_title(breed: str) -> str:
    """Torchvision's name of a pet: "american_pit_bull_terrier" becomes "American Pit Bull Terrier"."""
    return " ".join(part.title() for part in breed.split("_"))


def car_year_first(name: str) -> str:
    """CoOp's name of a car: "Audi TTS Coupe 2012" becomes "2012 Audi TTS Coupe"."""
    words = name.split(" ")
    return " ".join([words[-1], *words[:-1]])


def sun_reversed(name: str) -> str:
    """CoOp's name of a scene: "apartment_building/outdoor" becomes "outdoor apartment_building"."""
    return " ".join(reversed(name.split("/")))
